import { bash, type Exercise, edit, PY, read } from './exercise.ts';

export const exercise: Exercise = {
  prompt: 'The parser of the settings chokes on comments and on "=" in values. Mend ini.py.',
  fault: 'rate_limit',
  tests: PY,
  files: {
    'ini.py': `def parse(text):
    result, section = {}, {}
    for line in text.splitlines():
        if line.startswith("["):
            section = result.setdefault(line[1:-1], {})
        else:
            name, value = line.split("=")
            section[name] = value
    return result
`,
    'test_it.py': `import unittest
from ini import parse

class TestParse(unittest.TestCase):
    def test_parse(self):
        text = "; intro\\n[a]\\nx = 1\\n\\n# more\\ny=b=c\\n [ z ] \\nq=\\n"
        self.assertEqual(parse(text), {"a": {"x": "1", "y": "b=c"}, "z": {"q": ""}})

    def test_wrong(self):
        with self.assertRaisesRegex(ValueError, "line 2"):
            parse("[a]\\nnothing")
`,
  },
  steps: [
    read('ini.py'),
    bash(PY),
    edit('ini.py', 'line', 'row'),
    edit(
      'ini.py',
      '    for line in text.splitlines():\n',
      '    for number, line in enumerate(map(str.strip, text.splitlines()), 1):\n        if line == "" or line[0] in ";#":\n            continue\n',
    ),
    edit('ini.py', 'line[1:-1],', 'line[1:-1].strip(),'),
    bash(PY),
    edit(
      'ini.py',
      '            name, value = line.split("=")\n            section[name] = value\n',
      '            name, equals, value = line.partition("=")\n            if not equals:\n                raise ValueError(f"line {number} is no setting")\n            section[name.strip()] = value.strip()\n',
    ),
    bash(PY),
  ],
};
