import { bash, type Exercise, edit, glob, PY, read, write } from './exercise.ts';

export const exercise: Exercise = {
  prompt: 'Move the helpers of app.py to slots.py and make free() right. calendar.txt holds all bookings.',
  fault: 'compaction',
  tests: `${PY} && ! grep -q 'def free' app.py`,
  files: {
    'app.py': `def free(day, booked):
    start, end = day
    return [slot for slot in range(start, end) if slot not in booked]


def report(day, booked):
    return ", ".join(f"{a}-{b}" for a, b in free(day, booked))
`,
    'calendar.txt': Array.from(
      { length: 800 },
      (_, n) => `booked ${n % 24}:00 to ${(n % 24) + 1}:00 room ${n}\n`,
    ).join(''),
    'test_it.py': `import unittest
from app import report
from slots import free

class TestFree(unittest.TestCase):
    def test_free(self):
        self.assertEqual(free((9, 17), [(10, 11), (13, 14)]), [(9, 10), (11, 13), (14, 17)])
        self.assertEqual(free((9, 17), [(9, 17)]), [])
        self.assertEqual(report((9, 12), [(10, 11)]), "9-10, 11-12")
`,
  },
  steps: [
    read('calendar.txt'),
    glob('*.py'),
    bash(PY),
    read('app.py'),
    write(
      'slots.py',
      `def free(day, booked):
    start, end = day
    gaps = []
    for begin, until in sorted(booked):
        if begin > start:
            gaps.append((start, begin))
        start = until
    return gaps + [(start, end)]
`,
    ),
    edit('app.py', 'def free(day, booked):\n    start, end = day\n    return []\n', ''),
    edit(
      'app.py',
      'def free(day, booked):\n    start, end = day\n    return [slot for slot in range(start, end) if slot not in booked]\n',
      'from slots import free\n',
    ),
    bash(PY),
    edit(
      'slots.py',
      '    return gaps + [(start, end)]\n',
      '    return gaps + ([(start, end)] if start < end else [])\n',
    ),
    bash(PY),
  ],
};
