// Runs inside a sandbox, as `node - OPTIONS` with this file as input, and looks for secrets in all that it can reach:
// processes, descriptors, memory, files, sockets and the answers of the model gateway. Prints what it found and how much it
// could look at, never a secret.
const fs = require('node:fs');
const net = require('node:net');
const path = require('node:path');

const options = JSON.parse(Buffer.from(process.argv[2], 'base64').toString());
const needles = options.needles.map(({ name, form, hex }) => ({
  name,
  form,
  bytes: Buffer.from(Buffer.from(hex, 'hex').map((byte) => byte ^ 0xa5)),
}));
const longest = Math.max(...needles.map(({ bytes }) => bytes.length));
const BLOCK_BYTES = 1024 * 1024;
const MOST_FILE_BYTES = 64 * BLOCK_BYTES;
const GATEWAY = '/run/djinn/gw/model.sock';
const hits = new Map();
const reached = { processes: 0, environs: 0, descriptors: 0, memories: 0, files: 0, sockets: 0, replies: 0 };

function look(bytes, place) {
  for (const { name, form, bytes: needle } of needles) {
    if (bytes.includes(needle)) hits.set(`${name} ${form} ${place}`, { name, form, place });
  }
}

const quietly = (work) => {
  try {
    return work();
  } catch {
    return undefined; // not allowed, or gone meanwhile: nothing can be read there
  }
};

/** Reads a range in blocks that overlap by the longest needle. */
function lookAt(fd, place, from, to) {
  const block = Buffer.alloc(BLOCK_BYTES);
  for (let at = from; at < to; ) {
    const bytes = fs.readSync(fd, block, 0, Math.min(BLOCK_BYTES, to - at), at);
    if (bytes === 0) return;
    look(block.subarray(0, bytes), place);
    at += bytes < BLOCK_BYTES ? bytes : bytes - longest;
  }
}

function lookAtFile(file, place) {
  const fd = fs.openSync(file, fs.constants.O_RDONLY | fs.constants.O_NONBLOCK);
  try {
    lookAt(fd, place, 0, MOST_FILE_BYTES);
  } finally {
    fs.closeSync(fd);
  }
}

/** Small files of /proc have no size and no positions. */
const lookAtText = (file, place) => look(fs.readFileSync(file), place);

/** What is mapped from a file is searched there. */
function lookAtMemory(pid, place) {
  const maps = fs.readFileSync(`/proc/${pid}/maps`, 'utf8').split('\n');
  const fd = fs.openSync(`/proc/${pid}/mem`, 'r');
  reached.memories += 1;
  for (const line of maps) {
    const match = /^([0-9a-f]+)-([0-9a-f]+) (r\S+) \S+ \S+ (\d+)\s*(.*)$/.exec(line);
    if (match === null || match[5].startsWith('[v')) continue;
    if (match[4] !== '0' && !match[3].startsWith('rw')) continue;
    quietly(() => lookAt(fd, place, Number.parseInt(match[1], 16), Number.parseInt(match[2], 16)));
  }
  fs.closeSync(fd);
}

function lookAtProcess(pid) {
  reached.processes += 1;
  const dir = `/proc/${pid}`;
  if (quietly(() => lookAtText(`${dir}/environ`, 'environ') ?? true)) reached.environs += 1;
  for (const name of ['cmdline', 'comm', 'stack', 'auxv', 'mountinfo', 'status', 'wchan', 'syscall']) {
    quietly(() => lookAtText(`${dir}/${name}`, name));
  }
  for (const fd of quietly(() => fs.readdirSync(`${dir}/fd`)) ?? []) {
    reached.descriptors += 1;
    quietly(() => look(Buffer.from(fs.readlinkSync(`${dir}/fd/${fd}`)), 'descriptor name'));
    quietly(() => fs.statSync(`${dir}/fd/${fd}`).isFile() && lookAtFile(`${dir}/fd/${fd}`, 'descriptor'));
  }
  for (const link of ['cwd', 'root', 'exe']) {
    quietly(() => look(Buffer.from(fs.readlinkSync(`${dir}/${link}`)), 'link'));
    // Another root would be another file system to walk.
    quietly(() => fs.readlinkSync(`${dir}/${link}`) !== '/' && link === 'root' && walk(`${dir}/root/`));
  }
  if (pid !== String(process.pid)) quietly(() => lookAtMemory(pid, 'memory'));
}

/** The machine's own directories: a secret made after `since` is in no file that is older. */
const isSystem = (file) => /^\/(usr|etc\/ssl\/certs|etc\/alternatives)(\/|$)/.test(file);

const sockets = new Set([GATEWAY]);
function walk(dir) {
  for (const name of quietly(() => fs.readdirSync(dir)) ?? []) {
    const file = path.join(dir, name);
    if (file === '/proc' || (file === '/usr' && !options.system)) continue;
    look(Buffer.from(name), 'file name');
    const stat = quietly(() => fs.lstatSync(file));
    if (stat === undefined) continue;
    if (stat.isDirectory()) walk(file);
    else if (stat.isSocket()) sockets.add(file);
    else if (stat.isSymbolicLink()) quietly(() => look(Buffer.from(fs.readlinkSync(file)), 'link'));
    else if (stat.isFile() && !(isSystem(file) && stat.ctimeMs < options.since)) {
      if (quietly(() => lookAtFile(file, `file ${file}`) ?? true)) reached.files += 1;
    }
  }
}

/** What is at the other end of a socket says first, or to a greeting. */
function talk(address, greeting, place, waitMs) {
  return new Promise((resolve) => {
    const chunks = [];
    const socket = net.connect({ path: address });
    const end = () => {
      clearTimeout(timer);
      socket.destroy();
      const reply = Buffer.concat(chunks);
      look(reply, place);
      resolve(reply.length);
    };
    const timer = setTimeout(end, waitMs);
    socket.on('connect', () => socket.write(greeting));
    socket.on('data', (chunk) => chunks.push(chunk));
    socket.on('error', () => {});
    socket.on('close', end);
  });
}

async function lookAtSockets() {
  const table = quietly(() => fs.readFileSync('/proc/net/unix', 'utf8')) ?? '';
  look(Buffer.from(table), 'socket name');
  for (const line of table.split('\n').slice(1)) {
    // The number before the name is padded.
    const name = /^(?:\S+ +){6}\S+ (.+)$/.exec(line)?.[1];
    if (name !== undefined) sockets.add(name.startsWith('@') ? `\0${name.slice(1)}` : name);
  }
  for (const address of sockets) {
    const kind = address.startsWith('\0') ? 'abstract socket' : 'path socket';
    if ((await talk(address, 'GET / HTTP/1.0\r\n\r\n', kind, options.waitMs)) > 0) reached.sockets += 1;
  }
}

function requests() {
  const request = (head, body = '', more = '') =>
    `${head} HTTP/1.1\r\nhost: model\r\nconnection: close\r\ncontent-type: application/json\r\n${more}content-length: ${Buffer.byteLength(body)}\r\n\r\n${body}`;
  const chat = (content, stream) =>
    request(
      'POST /v1/chat/completions',
      JSON.stringify({ model: options.model, stream, messages: [{ role: 'user', content }] }),
    );
  const paths = [
    '/',
    '/v1/models',
    '/v1/models?key',
    '/v1/engines',
    '/metrics',
    '/v1/chat/completions',
    '/../..',
  ];
  return [
    ...options.prompts.flatMap((prompt) => [chat(prompt, false), chat(prompt, true)]),
    ...paths.map((target) => request(`GET ${target}`)),
    request('POST /v1/chat/completions', '{"model":'),
    request('POST /v1/chat/completions', '{"model":"another","messages":[]}'),
    request('TRACE /v1/models', '', 'max-forwards: 0\r\n'),
    request('OPTIONS *'),
    request('CONNECT 127.0.0.1:80'),
    'nonsense\r\n\r\n',
  ];
}

async function main() {
  look(Buffer.from(JSON.stringify(process.env)), 'environment');
  for (const fd of [0, 1, 2, 3, 4, 5, 6, 7, 8, 9]) {
    quietly(() => fs.fstatSync(fd).isFile() && lookAt(fd, 'own descriptor', 0, MOST_FILE_BYTES));
  }
  for (const pid of fs.readdirSync('/proc').filter((name) => /^\d+$/.test(name))) lookAtProcess(pid);
  for (const name of [
    'cmdline',
    'keys',
    'key-users',
    'mounts',
    'net/unix',
    'net/tcp',
    'locks',
    'sysvipc/shm',
  ]) {
    quietly(() => lookAtText(`/proc/${name}`, `/proc/${name}`));
  }
  walk('/');
  await lookAtSockets();
  for (const request of requests()) {
    if ((await talk(GATEWAY, request, 'gateway reply', 20 * options.waitMs)) > 0) reached.replies += 1;
  }
  process.stdout.write(`\n${JSON.stringify({ hits: [...hits.values()], reached })}\n`);
  process.exit(0);
}

main().catch((error) => {
  process.stdout.write(`${error?.stack}\n`);
  process.exit(1);
});
