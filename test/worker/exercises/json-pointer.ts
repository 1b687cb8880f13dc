import { bash, type Exercise, edit, edits, PY, read } from './exercise.ts';

export const exercise: Exercise = {
  prompt: 'resolve() does not know lists, escapes and the empty pointer. sample.json is real data.',
  fault: 'compaction',
  tests: PY,
  files: {
    'pointer.py': `def resolve(document, pointer):
    value = document
    for part in pointer.split("/")[1:]:
        value = value[part]
    return value
`,
    'sample.json': `[${'{"a/b": [1, 2, {"m~n": true}]},\n'.repeat(560)}null]`,
    'test_it.py': `import unittest
from pointer import resolve

class TestPointer(unittest.TestCase):
    def test_resolve(self):
        document = {"a/b": [1, 2, {"m~n": True}], "": 3, "~1": 4}
        for pointer, value in [("", document), ("/a~1b/1", 2), ("/a~1b/2/m~0n", True), ("/", 3), ("/~01", 4)]:
            self.assertEqual(resolve(document, pointer), value)
        with self.assertRaises(KeyError):
            resolve(document, "/nope")
`,
  },
  steps: [
    read('sample.json'),
    read('pointer.py'),
    bash(PY),
    edits('pointer.py', ['value[part]', 'step(value, part)'], ['def resolve(doc,', 'def resolve(document,']),
    edits(
      'pointer.py',
      ['value = value[part]', 'value = step(value, part)'],
      [
        'def resolve',
        'def step(value, part):\n    part = part.replace("~1", "/").replace("~0", "~")\n    return value[int(part)] if isinstance(value, list) else value[part]\n\n\ndef resolve',
      ],
    ),
    bash(PY),
    edit(
      'pointer.py',
      '    return value[int(part)]',
      '    # A list has numbers.\n    return value[int(part)]',
    ),
    bash(PY),
  ],
};
