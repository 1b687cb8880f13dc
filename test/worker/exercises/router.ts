import { bash, type Exercise, edit, JS, read } from './exercise.ts';

export const exercise: Exercise = {
  prompt:
    'Routes with parameters do not match, and dots in a route match anything. routes.txt has all our routes.',
  fault: 'compaction',
  tests: JS,
  files: {
    'router.mjs': `export function match(route, path) {
  const pattern = new RegExp('^' + route + '$');
  return pattern.test(path) ? {} : null;
}
`,
    'routes.txt': Array.from({ length: 700 }, (_, n) => `GET /v1/tenants/:tenant/items/${n}.json\n`).join(''),
    'test.mjs': `import assert from 'node:assert';
import { match } from './router.mjs';
assert.deepEqual(match('/a', '/a'), {});
assert.deepEqual(match('/users/:id', '/users/7'), { id: '7' });
assert.deepEqual(match('/:a/x/:b', '/1/x/%C3%A9'), { a: '1', b: 'é' });
assert.equal(match('/users/:id', '/users/7/edit'), null);
assert.equal(match('/feed.xml', '/feedzxml'), null);
`,
  },
  steps: [
    read('routes.txt', { limit: 700 }),
    read('router.mjs'),
    bash(JS),
    edit('router.mjs', "'^' + route + '$'", "'^' + route + '$'"),
    edit(
      'router.mjs',
      "  const pattern = new RegExp('^' + route + '$');\n  return pattern.test(path) ? {} : null;\n",
      `  const [wanted, given] = [route.split('/'), path.split('/')];
  if (wanted.length !== given.length) return null;
  const params = {};
  for (const [at, part] of wanted.entries()) {
    if (part.startsWith(':')) params[part.slice(1)] = given[at];
    else if (part !== given[at]) return null;
  }
  return params;
`,
    ),
    bash(JS),
    edit('router.mjs', '= given[at];', '= decodeURIComponent(given[at]);'),
    bash(JS),
  ],
};
