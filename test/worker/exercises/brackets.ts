import { bash, type Exercise, edit, edits, PY, read } from './exercise.ts';

export const exercise: Exercise = {
  prompt: 'balanced("([)]") says True. The file came from Windows: keep its line endings.',
  fault: 'kill',
  tests: `${PY} && ! grep -qvP '\\r$' brackets.py`,
  files: {
    'brackets.py': `PAIRS = {")": "(", "]": "[", "}": "{"}


def balanced(text):
    return all(text.count(a) == text.count(b) for a, b in PAIRS.items())
`.replaceAll('\n', '\r\n'),
    'test_it.py': `import unittest
from brackets import balanced

class TestBalanced(unittest.TestCase):
    def test_balanced(self):
        for text in ["", "a", "()", "([]{})"]:
            self.assertTrue(balanced(text), text)
        for text in ["(", ")", "([)]", ")("]:
            self.assertFalse(balanced(text), text)
`,
  },
  steps: [
    read('brackets.py'),
    bash(PY),
    edits('brackets.py', ['balanced(text)', 'is_balanced(text)'], ['nothing', 'something']),
    edit(
      'brackets.py',
      'def balanced(text):\n    return all(text.count(a) == text.count(b) for a, b in PAIRS.items())\n',
      `def balanced(text):
    open_ones = []
    for char in text:
        if char in PAIRS.values():
            open_ones.append(char)
        elif char in PAIRS and open_ones.pop() != PAIRS[char]:
            return False
    return not open_ones
`,
    ),
    bash(PY),
    edit(
      'brackets.py',
      'open_ones.pop() != PAIRS[char]:',
      '(not open_ones or open_ones.pop() != PAIRS[char]):',
    ),
    bash(`${PY} && ! grep -qvP '\\r$' brackets.py`),
  ],
};
