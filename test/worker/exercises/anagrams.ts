import { bash, type Exercise, edit, PY, read, write } from './exercise.ts';

export const exercise: Exercise = {
  prompt:
    'Write anagrams.py: groups(words) gives lists of words with the same letters, case aside, in order.',
  fault: 'rate_limit',
  tests: PY,
  files: {
    'test_it.py': `import unittest
from anagrams import groups

class TestGroups(unittest.TestCase):
    def test_groups(self):
        self.assertEqual(groups(["Tea", "ten", "eat", "net", "x"]), [["Tea", "eat"], ["ten", "net"], ["x"]])
        self.assertEqual(groups([]), [])
`,
  },
  steps: [
    read('test_it.py'),
    bash(PY),
    edit('anagrams.py', 'def groups', 'def groups_of'),
    write(
      'anagrams.py',
      `def groups(words):
    found = {}
    for word in words:
        found.setdefault("".join(sorted(word)), []).append(word)
    return list(found.values())
`,
    ),
    bash(PY),
    edit('anagrams.py', 'sorted(word)', 'sorted(word.lower())'),
    bash(PY),
  ],
};
