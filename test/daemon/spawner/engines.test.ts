import assert from 'node:assert/strict';
import {
  chmodSync,
  chownSync,
  existsSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  statSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { type TestContext, test } from 'node:test';
import { fileURLToPath } from 'node:url';
import { loadEngines, parseDefinition } from '../../../daemon/spawner/engines.ts';
import { prepareRuntimeFiles } from '../../../daemon/spawner/runtime-files.ts';
import { rootOnly } from './launch-fixture.ts';

const SHIPPED = fileURLToPath(new URL('../../../engines', import.meta.url));

function folder(t: TestContext): string {
  const path = mkdtempSync(join(tmpdir(), 'djinnd-engines-'));
  t.after(() => rmSync(path, { recursive: true }));
  return path;
}
const definition = (fields: object) =>
  JSON.stringify({ name: 'tool', kind: 'command', argv: ['/bin/true'], ...fields });

test('the shipped engines are djinn and scripted', () => {
  const { engines, problems } = loadEngines([{ path: SHIPPED, rootOwned: false }]);
  assert.deepEqual(problems, []);
  assert.deepEqual(
    [...engines.values()].map(({ name, kind }) => `${name} ${kind}`),
    ['djinn djinn', 'scripted command'],
  );
});

test('a definition must be complete, plain and say nothing unknown', () => {
  for (const [fields, complaint] of [
    [{ name: 'Tool' }, /name/],
    [{ name: '../x' }, /name/],
    [{ kind: 'other' }, /kind/],
    [{ argv: [] }, /argv/],
    [{ argv: ['true'] }, /absolute/],
    [{ argv: ['/bin/true', 1] }, /argv/],
    [{ argv: ['/bin/true\0'] }, /argv/],
    [{ files: ['../shadow'] }, /files/],
    [{ files: ['a/b'] }, /files/],
    [{ files: ['..'] }, /files/],
    [{ uid: 0 }, /unknown field uid/],
    [{ kind: 'djinn' }, /takes no argv/],
  ] as const) {
    assert.throws(() => parseDefinition(definition(fields), '/'), complaint, JSON.stringify(fields));
  }
  assert.throws(() => parseDefinition('[]', '/'), /not a JSON object/);
});

test('a file that others than root can change is left out and named', rootOnly, (t) => {
  const path = folder(t);
  const names = ['good', 'writable', 'foreign', 'linked', 'renamed', 'program'];
  for (const name of names) writeFileSync(join(path, `${name}.json`), definition({ name }), { mode: 0o644 });
  chmodSync(join(path, 'writable.json'), 0o666);
  chownSync(join(path, 'foreign.json'), 299_001, 299_001);
  rmSync(join(path, 'linked.json'));
  symlinkSync('good.json', join(path, 'linked.json'));
  writeFileSync(join(path, 'renamed.json'), definition({ name: 'good' }));
  writeFileSync(join(path, 'program.json'), definition({ name: 'program', files: ['run.sh'] }));
  writeFileSync(join(path, 'run.sh'), '', { mode: 0o644 });
  chmodSync(join(path, 'run.sh'), 0o646);
  const { engines, problems } = loadEngines([{ path, rootOwned: true }]);
  assert.deepEqual([...engines.keys()], ['good']);
  assert.equal(problems.length, 5, problems.join('\n'));
  chmodSync(path, 0o777);
  assert.equal(loadEngines([{ path, rootOwned: true }]).engines.size, 0);
});

test('the machine’s own definition replaces a shipped one; a missing folder is none', rootOnly, (t) => {
  const path = folder(t);
  writeFileSync(join(path, 'scripted.json'), definition({ name: 'scripted' }));
  const folders = [SHIPPED, path, '/nowhere'].map((each) => ({ path: each, rootOwned: each !== SHIPPED }));
  const { engines, problems } = loadEngines(folders);
  assert.deepEqual(problems, []);
  assert.deepEqual(engines.get('scripted')?.argv, ['/bin/true']);
});

test('running files are copies by content: a replaced source never changes them', (t) => {
  const path = folder(t);
  const stateDir = folder(t);
  const source = join(path, 'run.cjs');
  const engine = {
    name: 'tool',
    kind: 'command' as const,
    argv: ['/bin/true'],
    files: ['run.cjs'],
    dir: path,
  };
  writeFileSync(source, 'first');
  const prepare = () =>
    prepareRuntimeFiles({ stateDir, nodePath: source, workerPath: null, engines: [engine] });
  const first = prepare();
  writeFileSync(source, 'second');
  const second = prepare();
  assert.deepEqual(prepare(), second);
  assert.equal(readFileSync(join(first.engines.get('tool')?.filesDir as string, 'run.cjs'), 'utf8'), 'first');
  assert.equal(
    readFileSync(join(second.engines.get('tool')?.filesDir as string, 'run.cjs'), 'utf8'),
    'second',
  );
  assert.equal(statSync(second.node).mode & 0o7777, 0o711);
  assert.equal(statSync(join(stateDir, 'runtime')).mode & 0o7777, 0o711);
  assert.ok(existsSync(first.node));
  assert.ok(readdirSync(join(stateDir, 'runtime')).every((name) => !name.startsWith('.new-')));
});
