import { bash, type Exercise, edit, PY, read } from './exercise.ts';

export const exercise: Exercise = {
  prompt: 'merge() misses intervals that touch or lie inside others. Mend it.',
  fault: 'kill',
  tests: PY,
  files: {
    'intervals.py': `def merge(intervals):
    merged = []
    for start, end in intervals:
        if merged and start < merged[-1][1]:
            merged[-1] = (merged[-1][0], end)
        else:
            merged.append((start, end))
    return merged
`,
    'test_it.py': `import unittest
from intervals import merge

class TestMerge(unittest.TestCase):
    def test_merge(self):
        for given, wanted in [
            ([], []),
            ([(1, 3), (2, 4)], [(1, 4)]),
            ([(1, 2), (2, 3)], [(1, 3)]),
            ([(1, 9), (2, 3)], [(1, 9)]),
            ([(5, 6), (1, 2)], [(1, 2), (5, 6)]),
        ]:
            self.assertEqual(merge(given), wanted)
`,
  },
  steps: [
    read('intervals.py', { limit: 4 }),
    bash(PY),
    edit('intervals.py', 'merged[-1]', 'last'),
    edit('intervals.py', 'in intervals:', 'in sorted(intervals):'),
    bash(PY),
    edit('intervals.py', 'start < merged', 'start <= merged'),
    edit('intervals.py', '(merged[-1][0], end)', '(merged[-1][0], max(end, merged[-1][1]))'),
    bash(PY),
  ],
};
