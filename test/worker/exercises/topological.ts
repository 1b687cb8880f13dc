import { bash, type Exercise, edit, PY, read, write } from './exercise.ts';

export const exercise: Exercise = {
  prompt:
    'order() must refuse circles and keep the given order otherwise. build.log has the graph of the build.',
  fault: 'compaction',
  tests: PY,
  files: {
    'order.py': `def order(needs):
    return sorted(needs)
`,
    'build.log': Array.from({ length: 900 }, (_, n) => `step ${n} needs step ${(n * 31) % 17}\n`).join(''),
    'test_it.py': `import unittest
from order import order

class TestOrder(unittest.TestCase):
    def test_order(self):
        self.assertEqual(order({"shoes": ["socks"], "hat": [], "socks": []}), ["socks", "shoes", "hat"])

    def test_circle(self):
        with self.assertRaisesRegex(ValueError, "a -> b -> a"):
            order({"a": ["b"], "b": ["a"]})
`,
  },
  steps: [
    read('build.log'),
    bash(PY),
    read('order.py'),
    edit('order.py', 'sorted(need)', 'list(needs)'),
    write(
      'order.py',
      `def order(needs):
    done = []

    def visit(name, path):
        if name in path:
            raise ValueError("circle: " + " -> ".join(path))
        if name in done:
            return
        for other in needs[name]:
            visit(other, [*path, name])
        done.append(name)

    for name in needs:
        visit(name, [])
    return done
`,
    ),
    bash(PY),
    edit('order.py', '.join(path))', '.join([*path, name]))'),
    bash(PY),
  ],
};
