// Tenants' users, made in a system root of their own so that this machine's /etc stays as it is.
import assert from 'node:assert/strict';
import {
  appendFileSync,
  chmodSync,
  mkdirSync,
  mkdtempSync,
  readFileSync,
  rmSync,
  statSync,
  writeFileSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { type TestContext, test } from 'node:test';
import { fileURLToPath } from 'node:url';
import { execa } from 'execa';
import { createAccounts } from '../../../daemon/spawner/accounts.ts';
import { readUidRegistry, takeUid, writeUidRegistry } from '../../../daemon/spawner/uid-registry.ts';
import { rootOnly } from './launch-fixture.ts';

const range = { first: 200_000, last: 200_009 };

function systemRoot(t: TestContext): { systemRoot: string; stateDir: string } {
  const base = mkdtempSync(join(tmpdir(), 'djinnd-accounts-'));
  t.after(() => rmSync(base, { recursive: true }));
  const root = join(base, 'root');
  mkdirSync(join(root, 'etc'), { recursive: true });
  for (const [name, text] of [
    ['passwd', 'root:x:0:0:root:/root:/bin/bash\nother:x:200001:200001::/:/bin/sh\n'],
    ['group', 'root:x:0:\nother:x:200001:\n'],
    ['shadow', 'root:*:19000:0:99999:7:::\n'],
    ['gshadow', 'root:*::\n'],
    ['subuid', 'someone:200003:2\n'],
    ['login.defs', 'SYS_UID_MIN 100\nSYS_UID_MAX 999\n'],
  ] as const) {
    writeFileSync(join(root, 'etc', name), text);
  }
  const stateDir = join(base, 'state');
  mkdirSync(stateDir, { mode: 0o711 });
  return { systemRoot: root, stateDir };
}

test(
  'each tenant gets a user of its own, always the same, past uids that are somebody’s',
  rootOnly,
  async (t) => {
    const options = { ...systemRoot(t), privileged: true, range };
    const accounts = createAccounts(options);
    const [a, b, c] = [
      await accounts.ensure('acme'),
      await accounts.ensure('beta'),
      await accounts.ensure('gamma'),
    ];
    // 200001 is a user, 200003 and 200004 are somebody's subordinate uids.
    assert.deepEqual([a.uid, b.uid, c.uid], [200_000, 200_002, 200_005]);
    assert.deepEqual(await accounts.ensure('acme'), a);
    assert.deepEqual(await createAccounts(options).ensure('beta'), b);
    const modes = ['uids.json', 'uids.lock'].map(
      (name) => statSync(join(options.stateDir, name)).mode & 0o777,
    );
    assert.deepEqual(modes, [0o600, 0o600], 'nobody else can read the registry, or hold its lock');
    const passwd = readFileSync(join(options.systemRoot, 'etc/passwd'), 'utf8');
    assert.match(
      passwd,
      /^djt200000:x:200000:200000:djinnd tenant acme:\/nonexistent:\/usr\/sbin\/nologin$/m,
    );
    assert.match(readFileSync(join(options.systemRoot, 'etc/shadow'), 'utf8'), /^djt200000:!/m);
    assert.equal(statSync(join(options.stateDir, 'uids.json')).mode & 0o7777, 0o600);
  },
);

test('a uid is never given out again, not even when its user and tenant are gone', rootOnly, async (t) => {
  const options = { ...systemRoot(t), privileged: true, range };
  const first = await createAccounts(options).ensure('acme');
  await execa('userdel', ['--prefix', options.systemRoot, first.user]);
  const path = join(options.stateDir, 'uids.json');
  const registry = readUidRegistry(path, range);
  delete registry.tenants.acme;
  writeUidRegistry(path, registry);
  assert.equal((await createAccounts(options).ensure('beta')).uid, 200_002);
});

test('a lost registry is put together again from the users it made', rootOnly, async (t) => {
  const options = { ...systemRoot(t), privileged: true, range };
  const before = await createAccounts(options).ensure('acme');
  rmSync(join(options.stateDir, 'uids.json'));
  const accounts = createAccounts(options);
  assert.equal((await accounts.ensure('beta')).uid, 200_002);
  assert.deepEqual(await accounts.ensure('acme'), before);
});

test('a uid that somebody else took meanwhile is left to them', rootOnly, async (t) => {
  const options = { ...systemRoot(t), privileged: true, range };
  writeUidRegistry(join(options.stateDir, 'uids.json'), { next: 200_001, tenants: { acme: 200_000 } });
  appendFileSync(join(options.systemRoot, 'etc/passwd'), 'intruder:x:200000:200000::/:/bin/sh\n');
  assert.equal((await createAccounts(options).ensure('acme')).uid, 200_002);
});

test('a damaged registry, or one that others can write, stops everything', rootOnly, async (t) => {
  const options = { ...systemRoot(t), privileged: true, range };
  const path = join(options.stateDir, 'uids.json');
  for (const text of [
    '',
    '{',
    '[]',
    '{"v":1}',
    '{"v":2,"next":1,"tenants":{}}',
    '{"v":1,"next":1,"tenants":{"a":"b"}}',
  ]) {
    writeFileSync(path, text, { mode: 0o600 });
    await assert.rejects(createAccounts(options).ensure('acme'), /damaged/, text);
  }
  writeFileSync(path, '{"v":1,"next":200000,"tenants":{}}');
  chmodSync(path, 0o666);
  await assert.rejects(createAccounts(options).ensure('acme'), /only its owner can write/);
});

test('an empty range is an error that names it', () => {
  const taken = { next: 10, tenants: {} };
  assert.throws(
    () => takeUid(taken, 'a', () => true, { first: 1, last: 12 }),
    /no uid is left between 1 and 12/,
  );
  const { uid, registry } = takeUid(taken, '__proto__', () => false, { first: 1, last: 12 });
  assert.deepEqual([uid, registry.next, Object.keys(registry.tenants)], [10, 11, ['__proto__']]);
});

test('tenants asked for at once, in one process and in three, get one uid each', rootOnly, async (t) => {
  const options = { ...systemRoot(t), privileged: true, range };
  const source = fileURLToPath(new URL('../../../daemon/spawner/accounts.ts', import.meta.url));
  const script = `
import { createAccounts } from ${JSON.stringify(source)};
const accounts = createAccounts(JSON.parse(process.argv[1]));
const made = await Promise.all(['a', 'b', 'a', 'c'].map((tenant) => accounts.ensure(tenant)));
console.log(made.map(({ uid }) => uid).join(' '));`;
  const args = ['--input-type=module', '-e', script, JSON.stringify(options)];
  const results = await Promise.all([1, 2, 3].map(() => execa(process.execPath, args)));
  const lines = new Set(results.map(({ stdout }) => stdout));
  assert.equal(lines.size, 1, [...lines].join(' / '));
  const [a, b, again, c] = [...lines][0]?.split(' ') ?? [];
  assert.equal(a, again);
  assert.equal(new Set([a, b, c]).size, 3);
});

test('without root one user stands for all', async () => {
  const { ensure } = createAccounts({ stateDir: '/nowhere', privileged: false });
  assert.deepEqual(await ensure('a'), await ensure('b'));
  assert.equal((await ensure('a')).uid, process.getuid?.());
});
