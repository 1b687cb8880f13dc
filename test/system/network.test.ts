// What a job can reach beside its files: with `network='none'` the model gateway and nothing else, while the same probe
// reaches this machine with `network='host'`.
import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { createSocket } from 'node:dgram';
import { once } from 'node:events';
import { mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { type AddressInfo, createServer, type Server } from 'node:net';
import { networkInterfaces, tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, before, test } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';
import type { FakeOpenAI } from '../../worker/index.ts';
import { endOf, startDaemon, startObedientModel, type TestDaemon, toolResult } from '../support/daemon.ts';
import { removeUsers } from '../support/tenant-users.ts';
import { timeScale } from '../vm/guest.ts';
import { leftovers } from './leftovers.ts';
import { query } from './steps.ts';
import { Follower } from './streams.ts';

const PERL = '/usr/bin/perl';
const probe = readFileSync(join(import.meta.dirname, 'network-probe.pl'), 'utf8');
const skip = missing();
const tenants = { prober: `np${process.pid}`, neighbour: `nn${process.pid}` };
let daemon: TestDaemon;
let model: FakeOpenAI;
let key: string;
let neighbour: Follower;
let neighbourRuns: Promise<void>;
let scratch: string;
/** What the machine's listeners were asked, by their names. */
const asked: string[] = [];
const servers: { close(): unknown }[] = [];
let targets: Record<string, string>;

function missing(): string | false {
  if (process.getuid?.() !== 0) return 'needs root: network namespaces';
  try {
    execFileSync(PERL, ['-MSocket', '-e', '1']);
    return false;
  } catch {
    return `needs ${PERL}, in which the probe is written`;
  }
}

async function listen(name: string, where: object): Promise<AddressInfo> {
  const server: Server = createServer((socket) => {
    asked.push(name);
    socket.destroy();
  });
  servers.push(server);
  server.listen(where);
  await once(server, 'listening');
  return server.address() as AddressInfo;
}

async function listenUdp(name: string): Promise<number> {
  const socket = createSocket('udp4', (_message, { port, address }) => {
    asked.push(name);
    socket.send('answer', port, address);
  });
  servers.push(socket);
  socket.bind(0, '127.0.0.1');
  await once(socket, 'listening');
  return socket.address().port;
}

/** Everything on this machine that a job should not reach, as the probe's arguments. */
async function makeTargets(): Promise<Record<string, string>> {
  const abstract = `djinnd-network-${process.pid}`;
  const { port } = await listen('tcp', { host: '127.0.0.1', port: 0 });
  const any = await listen('tcp on every address', { host: '0.0.0.0', port: 0 });
  await listen('abstract', { path: `\0${abstract}` });
  await listen('path', { path: join(scratch, 'listener.sock'), writableAll: true });
  const outside = Object.values(networkInterfaces()).flatMap((list) => list ?? []);
  const address = outside.find(({ internal, family }) => !internal && family === 'IPv4')?.address;
  const { jobId } = neighbour;
  return {
    tcp: `tcp:127.0.0.1:${port}`,
    'this machine by its other address': `tcp:${address ?? '192.0.2.2'}:${any.port}`,
    udp: `udp:127.0.0.1:${await listenUdp('udp')}`,
    abstract: `abstract:${abstract}`,
    http: `tcp:${new URL(daemon.url).host}`,
    metrics: `tcp:${new URL(daemon.metricsUrl).host}`,
    model: `tcp:${new URL(model.baseUrl).host}`,
    ipv6: `tcp:[::1]:${port}`,
    'another machine': 'tcp:192.0.2.1:80',
    'a name server': 'udp:192.0.2.1:53',
    'path socket': `unix:${join(scratch, 'listener.sock')}`,
    spawner: `unix:${daemon.runDir}/spawner.sock`,
    postgres: `unix:${daemon.runDir}/pg/.s.PGSQL.5432`,
    'another gateway': `unix:${daemon.jobsRunDir}/${jobId}/gw/model.sock`,
    'another gateway from here': `unix:/run/djinn/gw/../../${jobId}/gw/model.sock`,
    dbus: 'unix:/run/dbus/system_bus_socket',
    systemd: 'unix:/run/systemd/private',
    log: 'datagram:/dev/log',
    docker: 'unix:/run/docker.sock',
    'raw icmp': 'raw:1',
    'raw tcp': 'raw:6',
    packet: 'packet',
    vsock: 'vsock',
    'add a route': 'route',
    'add an interface': 'link',
    'the init’s network': 'namespace:1',
    gateway: 'gateway',
  };
}

before(async () => {
  if (skip !== false) return;
  scratch = mkdtempSync(join(tmpdir(), 'djinnd-network-'));
  model = await startObedientModel();
  daemon = await startDaemon({
    instance: `network-${process.pid}`,
    env: { DJINN_API_BASE: model.baseUrl, DJINN_MODEL: 'obedient' },
  });
  key = await daemon.tenant(tenants.prober, '--engine', 'scripted');
  neighbour = new Follower(daemon.url, await daemon.tenant(tenants.neighbour, '--engine', 'scripted'));
  const steps = [{ say: 'here' }, { sleepMs: 600_000 }];
  neighbourRuns = neighbour.post({ prompt: JSON.stringify({ steps }) });
  while (!neighbour.lines.some(({ type }) => type === 'token')) await sleep(20 * timeScale);
  targets = await makeTargets();
});

after(async () => {
  if (skip !== false) return;
  for (const server of servers) server.close();
  assert.doesNotMatch(await daemon.log(), /"level":"(error|fatal)"/);
  assert.equal(await daemon.close(), 0);
  await neighbourRuns.catch(() => {}); // it was running when the daemon stopped
  await model.stop();
  assert.deepEqual(leftovers(daemon), []);
  for (const dir of [daemon.stateDir, scratch]) rmSync(dir, { recursive: true });
  removeUsers(Object.values(tenants));
});

type Engine = 'scripted' | 'djinn';
const setProber = (engine: Engine, network: string) =>
  query(daemon, 'update tenants set wbb_engine = $1, network = $2 where id = $3', [
    engine,
    network,
    tenants.prober,
  ]);

/** Runs the probe in a job; answers what it said of each target. */
async function probeFrom(engine: Engine, network: 'none' | 'host'): Promise<Record<string, string>> {
  await setProber(engine, network);
  const words = Object.entries(targets).map(([name, target]) => `${name}=${target}`);
  const quoted = words.map((word) => `'${word}'`).join(' ');
  const prompt =
    engine === 'scripted'
      ? JSON.stringify({ steps: [{ exec: { argv: [PERL, '-', ...words], input: probe } }] })
      : `bash: ${PERL} - ${quoted} <<'PROBE'\n${probe}\nPROBE`;
  asked.length = 0;
  const lines = await daemon.job(key, { prompt });
  assert.equal(endOf(lines).outcome, 'ok', toolResult(lines));
  const said = toolResult(lines).trim().split('\n');
  return Object.fromEntries(
    said.map((line) => [line.slice(0, line.lastIndexOf(' ')), line.split(' ').at(-1) ?? '']),
  );
}

const refused = 'ECONNREFUSED';
/** The namespace's own loopback refuses, no route leads on, no path of the machine's is there. */
const ALONE = {
  ...{
    tcp: refused,
    udp: refused,
    ipv6: refused,
    abstract: refused,
    http: refused,
    metrics: refused,
    model: refused,
  },
  ...{ 'this machine by its other address': 'ENETUNREACH', 'another machine': 'ENETUNREACH' },
  'a name server': 'ENETUNREACH',
  gateway: 'reached',
};
/** With any network. */
const NEVER = {
  ...{ 'path socket': 'ENOENT', spawner: 'ENOENT', postgres: 'ENOENT', dbus: 'ENOENT', systemd: 'ENOENT' },
  ...{ 'another gateway': 'ENOENT', 'another gateway from here': 'ENOENT', log: 'ENOENT', docker: 'ENOENT' },
  ...{ 'raw icmp': 'EPERM', 'raw tcp': 'EPERM', 'add a route': 'EPERM', 'add an interface': 'EPERM' },
  ...{ packet: 'EAFNOSUPPORT', vsock: 'EAFNOSUPPORT', 'the init’s network': 'EACCES' },
};

for (const engine of ['scripted', 'djinn'] as const) {
  test(`without network a job of ${engine} reaches its model gateway and nothing else`, {
    skip,
  }, async () => {
    assert.deepEqual(await probeFrom(engine, 'none'), { ...ALONE, ...NEVER });
    assert.deepEqual(asked, [], 'no listener of the machine was asked');
  });
}

test('with the machine’s network the same probe reaches the machine, and still no socket of djinnd’s', {
  skip,
}, async () => {
  const seen = await probeFrom('scripted', 'host');
  for (const name of ['tcp', 'udp', 'abstract', 'http', 'metrics', 'model', 'gateway']) {
    assert.equal(seen[name], 'reached', name);
  }
  for (const [name, expected] of Object.entries(NEVER)) assert.equal(seen[name], expected, name);
  assert.deepEqual(asked.filter((name) => name !== 'tcp on every address').sort(), [
    'abstract',
    'tcp',
    'udp',
  ]);
});

test('the gateway is no way on: it asks no other address, whatever it is told', { skip }, async () => {
  const { host } = new URL(`http://${targets.tcp?.slice('tcp:'.length)}`);
  const heads = [
    `CONNECT ${host} HTTP/1.1`,
    `GET http://${host}/ HTTP/1.1`,
    `POST http://${host}/v1/chat/completions HTTP/1.1`,
    `POST /v1/chat/completions@${host}/ HTTP/1.1`,
    `POST /v1/../../../${host}/v1/chat/completions HTTP/1.1`,
  ];
  const script = `const net = require('node:net');
for (const head of process.argv.slice(2)) {
  const socket = net.connect('/run/djinn/gw/model.sock');
  socket.on('error', () => {}).on('data', (data) => console.log(String(data).split(' ')[1]));
  socket.write(head + '\\r\\nhost: ${host}\\r\\nconnection: close\\r\\ncontent-length: 0\\r\\n\\r\\n');
}`;
  await setProber('scripted', 'none');
  asked.length = 0;
  const before = model.requests.length;
  const argv = ['/opt/djinn/node', '-', ...heads];
  const lines = await daemon.job(key, {
    prompt: JSON.stringify({ steps: [{ exec: { argv, input: script } }] }),
  });
  const statuses = toolResult(lines).trim().split('\n');
  assert.deepEqual([...new Set(statuses)].sort(), ['404', '405']);
  assert.equal(statuses.length, heads.length);
  assert.deepEqual(asked, []);
  assert.equal(model.requests.length, before);
});
