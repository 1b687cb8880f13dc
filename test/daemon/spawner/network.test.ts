import assert from 'node:assert/strict';
import { once } from 'node:events';
import { chmodSync } from 'node:fs';
import { type AddressInfo, createServer } from 'node:net';
import { join } from 'node:path';
import { type TestContext, test } from 'node:test';
import type { Network } from '../../../daemon/spawner/wire.ts';
import { isRoot, launchFixture, textOf } from './launch-fixture.ts';

/** Tries to reach a port, a name server and a socket of the machine, and lists its interfaces. */
const PROBE = `
const net = require('node:net'), os = require('node:os'), dns = require('node:dgram');
const attempt = (name, options) => new Promise((resolve) => {
  const socket = net.connect(options, () => { console.log(name, 'reached'); socket.destroy(); resolve(); });
  socket.on('error', (error) => { console.log(name, error.code); resolve(); });
});
(async () => {
  const outside = Object.keys(os.networkInterfaces()).filter((name) => name !== 'lo');
  console.log('interfaces', outside.length);
  await attempt('loopback', { host: '127.0.0.1', port: Number(process.argv[1]) });
  await attempt('abstract', { path: '\\0' + process.argv[2] });
})();`;

async function listeners(t: TestContext): Promise<{ port: number; abstractName: string }> {
  const tcp = createServer((socket) => socket.destroy()).listen(0, '127.0.0.1');
  const abstractName = `djinnd-test-${process.pid}`;
  const unix = createServer((socket) => socket.destroy()).listen(`\0${abstractName}`);
  await Promise.all([once(tcp, 'listening'), once(unix, 'listening')]);
  t.after(() => [tcp.close(), unix.close()]);
  return { port: (tcp.address() as AddressInfo).port, abstractName };
}

async function probe(t: TestContext, network: Network): Promise<string[]> {
  const { port, abstractName } = await listeners(t);
  const { run } = launchFixture(t);
  const { stdout } = await run(['/opt/djinn/node', '-e', PROBE, String(port), abstractName], { network });
  return stdout.trim().split('\n');
}

test('without network a job has a loopback of its own and reaches nothing', async (t) => {
  assert.deepEqual(await probe(t, 'none'), [
    'interfaces 0',
    'loopback ECONNREFUSED',
    'abstract ECONNREFUSED',
  ]);
});

test('the same probe reaches the machine when its network is asked for', async (t) => {
  const seen = await probe(t, 'host');
  assert.ok(seen.includes('loopback reached') && seen.includes('abstract reached'), seen.join(', '));
});

test('the gateway’s socket is reachable by name through its directory and its directory cannot be listed', async (t) => {
  const { start, jobsRunDir } = launchFixture(t);
  const script = `
const gw = '/run/djinn/gw';
try { console.log(require('node:fs').readdirSync(gw).length); } catch (error) { console.log('list', error.code); }
try { require('node:fs').writeFileSync(gw + '/other', ''); } catch (error) { console.log('write', error.code); }
process.stdin.resume().on('end', () => {
  const socket = require('node:net').connect(gw + '/model.sock', () => { console.log('reached'); socket.destroy(); });
  socket.on('error', (error) => console.log(error.code));
});`;
  const launched = start(['/opt/djinn/node', '-e', script]);
  assert.equal(await launched.running, true);
  const path = join(jobsRunDir, 'job_0', 'gw', 'model.sock');
  const gateway = createServer((socket) => socket.destroy()).listen(path);
  await once(gateway, 'listening');
  chmodSync(path, 0o660);
  launched.stdin.end();
  const [stdout] = await Promise.all([textOf(launched.stdout), launched.ended]);
  assert.equal(stdout, isRoot ? 'list EACCES\nwrite EROFS\nreached\n' : '0\nwrite EROFS\nreached\n');
  gateway.close();
  assert.deepEqual(await launched.close(), []);
});

test('sockets of families that a network namespace does not hold are refused, with the machine’s network too', async (t) => {
  const { run } = launchFixture(t);
  const families = { unix: 1, inet: 2, inet6: 10, netlink: 16, packet: 17, alg: 38, vsock: 40, xdp: 44 };
  const script = `for my $family (${Object.values(families).join(',')}) { socket(my $socket, $family, 3, 0) or socket($socket, $family, 1, 0); print $!+0, "\\n" }`;
  const refused = 97; // EAFNOSUPPORT
  for (const network of ['none', 'host'] as const) {
    const { stdout } = await run(['/usr/bin/perl', '-e', script], { network });
    const codes = stdout.trim().split('\n').map(Number);
    const seen = Object.keys(families).filter((_, index) => codes[index] !== refused);
    assert.deepEqual(seen, ['unix', 'inet', 'inet6', 'netlink'], stdout);
  }
});
