import { bash, type Exercise, edit, PY, read } from './exercise.ts';

export const exercise: Exercise = {
  prompt: 'find() hangs for some values and misses the last one. Mend it without importing bisect.',
  fault: 'kill',
  tests: PY,
  files: {
    'search.py': `def find(values, wanted):
    low, high = 0, len(values) - 1
    while low < high:
        middle = (low + high) // 2
        if values[middle] == wanted:
            return middle
        if values[middle] < wanted:
            low = middle
        else:
            high = middle
    return -1
`,
    'test_it.py': `import signal
import unittest
from search import find

class TestFind(unittest.TestCase):
    def test_find(self):
        signal.alarm(2)
        values = [1, 3, 5, 7, 9]
        self.assertEqual([find(values, value) for value in values], [0, 1, 2, 3, 4])
        self.assertEqual([find(values, value) for value in [0, 4, 10]], [-1, -1, -1])
        self.assertEqual(find([], 1), -1)
`,
  },
  steps: [
    read('search.py'),
    edit('search.py', 'low = middle', 'low = middle + 1'),
    bash(`timeout 10 ${PY}`),
    edit('search.py', 'high = middle - 1', 'high = middle - 1'),
    edit('search.py', 'high = middle\n', 'high = middle - 1\n'),
    bash(`timeout 10 ${PY}`),
    edit('search.py', 'while low < high:', 'while low <= high:'),
    bash(PY),
  ],
};
