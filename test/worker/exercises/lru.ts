import { bash, type Exercise, edit, glob, JS, read } from './exercise.ts';

export const exercise: Exercise = {
  prompt: 'The cache throws out what was used last. Find out why and mend it.',
  fault: 'kill',
  tests: JS,
  files: {
    'src/lru.mjs': `export class Lru {
  #items = new Map();
  constructor(size) { this.size = size; }
  get(key) {
    return this.#items.get(key);
  }
  set(key, value) {
    this.#items.set(key, value);
    if (this.#items.size > this.size) this.#items.delete(this.#items.keys().next().value);
  }
}
`,
    'test.mjs': `import assert from 'node:assert';
import { Lru } from './src/lru.mjs';
const lru = new Lru(2);
lru.set('a', 1); lru.set('b', 2); assert.equal(lru.get('a'), 1);
lru.set('c', 3); assert.equal(lru.get('b'), undefined); assert.equal(lru.get('a'), 1);
lru.set('a', 9); lru.set('d', 4); assert.equal(lru.get('a'), 9); assert.equal(lru.get('c'), undefined);
`,
  },
  steps: [
    glob('**/*.mjs'),
    read('src/lru.mjs'),
    bash(JS),
    edit('src/lru.js', 'return this', 'return that'),
    edit(
      'src/lru.mjs',
      '    return this.#items.get(key);\n',
      '    const value = this.#items.get(key);\n    if (this.#items.delete(key)) this.#items.set(key, value);\n    return value;\n',
    ),
    bash(JS),
    edit(
      'src/lru.mjs',
      '    this.#items.set(key, value);\n    if (this.#items.size',
      '    this.#items.delete(key);\n    this.#items.set(key, value);\n    if (this.#items.size',
    ),
    bash(JS),
  ],
};
