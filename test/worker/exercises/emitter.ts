import { bash, type Exercise, edit, JS, read } from './exercise.ts';

export const exercise: Exercise = {
  prompt: 'A listener that removes itself makes the next one be skipped. Mend emitter.mjs.',
  fault: 'rate_limit',
  tests: JS,
  files: {
    'emitter.mjs': `export function createEmitter() {
  const listeners = [];
  const off = (listener) => listeners.splice(listeners.indexOf(listener), 1);
  return {
    on: (listener) => listeners.push(listener),
    off,
    once(listener) {
      const wrapped = (value) => { off(wrapped); listener(value); };
      listeners.push(wrapped);
    },
    emit(value) { for (const listener of listeners) listener(value); },
  };
}
`,
    'test.mjs': `import assert from 'node:assert';
import { createEmitter } from './emitter.mjs';
const seen = [];
const emitter = createEmitter();
emitter.once((v) => seen.push('once ' + v));
emitter.on((v) => seen.push('on ' + v));
emitter.emit(1); emitter.emit(2);
assert.deepEqual(seen, ['once 1', 'on 1', 'on 2']);
emitter.off(() => {}); emitter.emit(3);
assert.equal(seen.at(-1), 'on 3');
`,
  },
  steps: [
    bash(JS),
    read('emitter.mjs'),
    edit('emitter.mjs', 'listener', 'handler'),
    edit('emitter.mjs', 'of listeners) listener(value)', 'of [...listeners]) listener(value)'),
    bash(JS),
    edit(
      'emitter.mjs',
      'const off = (listener) => listeners.splice(listeners.indexOf(listener), 1);',
      'const off = (listener) => {\n    const at = listeners.indexOf(listener);\n    if (at !== -1) listeners.splice(at, 1);\n  };',
    ),
    bash(JS),
  ],
};
