import { bash, type Exercise, edit, JS, read } from './exercise.ts';

export const exercise: Exercise = {
  prompt: 'pop() of the heap gives values in the wrong order. Mend heap.mjs.',
  fault: 'rate_limit',
  tests: JS,
  files: {
    'heap.mjs': `export function createHeap() {
  const items = [];
  const swap = (a, b) => { [items[a], items[b]] = [items[b], items[a]]; };
  return {
    push(value) {
      let at = items.push(value) - 1;
      while (at > 0 && items[at] < items[(at - 1) >> 1]) { swap(at, (at - 1) >> 1); at = (at - 1) >> 1; }
    },
    pop() {
      const top = items[0];
      items[0] = items.pop();
      let at = 0;
      for (;;) {
        const child = 2 * at + 1;
        if (child >= items.length || items[at] <= items[child]) return top;
        swap(at, child);
        at = child;
      }
    },
  };
}
`,
    'test.mjs': `import assert from 'node:assert';
import { createHeap } from './heap.mjs';
const heap = createHeap();
const values = Array.from({ length: 200 }, (_, n) => (n * 7919) % 211);
for (const value of values) heap.push(value);
assert.deepEqual(values.map(() => heap.pop()), [...values].sort((a, b) => a - b));
assert.equal(heap.pop(), undefined);
heap.push(1); assert.equal(heap.pop(), 1);
`,
  },
  steps: [
    bash(JS),
    read('heap.mjs', { offset: 9, limit: 12 }),
    edit('heap.mjs', 'items[at]', 'items[here]'),
    edit(
      'heap.mjs',
      'const child = 2 * at + 1;\n',
      'let child = 2 * at + 1;\n        if (items[child + 1] < items[child]) child += 1;\n',
    ),
    bash(JS),
    edit(
      'heap.mjs',
      '      items[0] = items.pop();\n',
      '      const last = items.pop();\n      if (items.length > 0) items[0] = last;\n',
    ),
    bash(JS),
  ],
};
