import { bash, type Exercise, edit, JS, read, write } from './exercise.ts';

export const exercise: Exercise = {
  prompt:
    'Write bucket.mjs: createBucket({capacity, perSecond, now}) whose take() says whether a token was left.',
  fault: 'rate_limit',
  tests: JS,
  files: {
    'test.mjs': `import assert from 'node:assert';
import { createBucket } from './bucket.mjs';
let ms = 0;
const bucket = createBucket({ capacity: 2, perSecond: 1, now: () => ms });
assert.deepEqual([bucket.take(), bucket.take(), bucket.take()], [true, true, false]);
ms = 500; assert.equal(bucket.take(), false);
ms = 1000; assert.equal(bucket.take(), true);
ms = 60000; assert.deepEqual([bucket.take(), bucket.take(), bucket.take()], [true, true, false]);
`,
  },
  steps: [
    read('test.mjs'),
    bash(JS),
    edit('bucket.mjs', '', 'export function createBucket() {}'),
    write(
      'bucket.mjs',
      `export function createBucket({ capacity, perSecond, now }) {
  let tokens = capacity;
  let last = now();
  return {
    take() {
      const time = now();
      tokens = tokens + ((time - last) / 1000) * perSecond;
      last = time;
      if (tokens < 1) return false;
      tokens -= 1;
      return true;
    },
  };
}
`,
    ),
    bash(JS),
    edit(
      'bucket.mjs',
      'tokens = tokens + ((time - last) / 1000) * perSecond;',
      'tokens = Math.min(capacity, tokens + ((time - last) / 1000) * perSecond);',
    ),
    bash(JS),
  ],
};
