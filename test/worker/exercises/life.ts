import { bash, type Exercise, edit, PY, read, write } from './exercise.ts';

export const exercise: Exercise = {
  prompt: "Write life.py: step(cells) is one generation of Conway's game on a set of (x, y).",
  fault: 'rate_limit',
  tests: PY,
  files: {
    'test_it.py': `import unittest
from life import step

class TestLife(unittest.TestCase):
    def test_blinker(self):
        self.assertEqual(step({(0, -1), (0, 0), (0, 1)}), {(-1, 0), (0, 0), (1, 0)})

    def test_block(self):
        block = {(0, 0), (0, 1), (1, 0), (1, 1)}
        self.assertEqual(step(block), block)

    def test_lonely(self):
        self.assertEqual(step({(3, 3)}), set())
`,
  },
  steps: [
    bash(PY),
    read('test_it.py'),
    write(
      'life.py',
      `from collections import Counter


def step(cells):
    near = Counter((x + dx, y + dy) for x, y in cells for dx in (-1, 0, 1) for dy in (-1, 0, 1))
    return {cell for cell, count in near.items() if count == 3}
`,
    ),
    bash(PY),
    edit('life.py', 'count == 4', 'count == 3'),
    edit('life.py', 'if count == 3}', 'if count == 3 or (count == 4 and cell in cells)}'),
    bash(PY),
  ],
};
