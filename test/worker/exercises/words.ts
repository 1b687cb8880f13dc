import { bash, type Exercise, edit, grep, PY, read } from './exercise.ts';

export const exercise: Exercise = {
  prompt: 'count() takes punctuation for letters and counts Straße and STRASSE apart. Mend it.',
  fault: 'rate_limit',
  tests: PY,
  files: {
    'words.py': `from collections import Counter


def count(text):
    return Counter(text.split())
`,
    'test_it.py': `import unittest
from words import count

class TestCount(unittest.TestCase):
    def test_count(self):
        self.assertEqual(count("Straße, STRASSE! don't"), {"strasse": 2, "don't": 1})
        self.assertEqual(count("Здравствуй, мир. Мир?"), {"здравствуй": 1, "мир": 2})
        self.assertEqual(count(" ... "), {})
`,
  },
  steps: [
    grep('Counter'),
    read('words.py'),
    bash(PY),
    edit('words.py', 'Counter', 'dict'),
    edit('words.py', 'text.split()', 're.findall(r"\\w+", text.casefold())'),
    edit('words.py', 'from collections', 'import re\nfrom collections'),
    bash(PY),
    edit('words.py', 'r"\\w+"', 'r"[\\w\']+"'),
    bash(PY),
  ],
};
