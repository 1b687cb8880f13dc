// Tries under djinnd.service what the daemon must be able to do, and what it must not.
import { execFileSync } from 'node:child_process';
import { lookup } from 'node:dns/promises';
import { existsSync, readdirSync, readFileSync, renameSync, writeFileSync } from 'node:fs';
import { createServer, get } from 'node:http';

const [, , dir = ''] = process.argv;

function errorOf(action: () => unknown): string {
  try {
    action();
    return 'done';
  } catch (error) {
    return (error as NodeJS.ErrnoException).code ?? String(error);
  }
}

async function answers(
  listen: (server: ReturnType<typeof createServer>) => Promise<object>,
): Promise<boolean> {
  const server = createServer((_request, response) => void response.end('ok'));
  const where = await listen(server);
  const ok = await new Promise<boolean>((resolve) => {
    get({ ...where, path: '/' }, (response) => resolve(response.statusCode === 200)).on('error', () =>
      resolve(false),
    );
  });
  server.close();
  return ok;
}

const facts = {
  uid: process.getuid?.(),
  status: readFileSync('/proc/self/status', 'utf8'),
  tcp: await answers(async (server) => {
    await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
    return { port: (server.address() as { port: number }).port, host: '127.0.0.1' };
  }),
  socket: await answers(async (server) => {
    await new Promise<void>((resolve) => server.listen(`${dir}/gw/model.sock`, resolve));
    return { socketPath: `${dir}/gw/model.sock` };
  }),
  localhost: (await lookup('localhost')).address,
  writeEtc: errorOf(() => writeFileSync('/etc/djinnd-test', '')),
  writeVar: errorOf(() => writeFileSync('/var/djinnd-test', '')),
  writeCgroup: errorOf(() => writeFileSync('/sys/fs/cgroup/cgroup.procs', '0')),
  seesInit: existsSync('/proc/1/status'),
  homes: errorOf(() => readdirSync('/root')),
  namespace: errorOf(() => execFileSync('unshare', ['-U', 'true'], { stdio: 'ignore' })),
};
writeFileSync(`${dir}/gw/report.new`, JSON.stringify(facts));
renameSync(`${dir}/gw/report.new`, `${dir}/gw/report.json`);
setInterval(() => {}, 60_000);
