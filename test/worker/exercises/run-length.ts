import { bash, type Exercise, edit, PY, read } from './exercise.ts';

export const exercise: Exercise = {
  prompt: 'decode(encode(text)) must be text again, also for digits. dump.txt is what production sees.',
  fault: 'compaction',
  tests: PY,
  files: {
    'runs.py': `from itertools import groupby


def encode(text):
    return "".join(f"{len(list(group))}{char}" for char, group in groupby(text))


def decode(code):
    return "".join(char * int(count) for count, char in zip(code[::2], code[1::2]))
`,
    'dump.txt': `${'aaaaaaaaaaaabbb7 北北 '.repeat(60)}\n`.repeat(18),
    'test_it.py': `import unittest
from runs import decode, encode

class TestRuns(unittest.TestCase):
    def test_round_trip(self):
        for text in ["", "a", "aaab", "a" * 12, "111122", "北北京", "a\\nb"]:
            self.assertEqual(decode(encode(text)), text)
`,
  },
  steps: [
    read('dump.txt'),
    read('runs.py'),
    bash(PY),
    edit('runs.py', 'int(count) for char', 'int(count) for count'),
    edit('runs.py', 'f"{len(list(group))}{char}"', 'f"{len(list(group))}:{char}"'),
    edit(
      'runs.py',
      '    return "".join(char * int(count) for count, char in zip(code[::2], code[1::2]))',
      '    return "".join(char * int(count) for count, char in re.findall(r"(\\d+):(.)", code, re.DOTALL))',
    ),
    bash(PY),
    edit('runs.py', 'from itertools', 'import re\nfrom itertools'),
    bash(PY),
  ],
};
