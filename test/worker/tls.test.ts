import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { readFileSync } from 'node:fs';
import { createServer } from 'node:https';
import type { AddressInfo } from 'node:net';
import { join } from 'node:path';
import { test } from 'node:test';
import { makeFolder, runWorker, terminal } from './worker-process.ts';

test('a model behind https is reached, and a certificate that nobody vouches for is refused', async (t) => {
  const home = makeFolder(t);
  const [key, cert] = [join(home, 'key.pem'), join(home, 'cert.pem')];
  const subject = ['-subj', '/CN=localhost', '-addext', 'subjectAltName=DNS:localhost'];
  try {
    execFileSync(
      'openssl',
      [
        'req',
        '-x509',
        '-newkey',
        'ec',
        '-pkeyopt',
        'ec_paramgen_curve:prime256v1',
        '-nodes',
        '-keyout',
        key,
        '-out',
        cert,
        '-days',
        '2',
        ...subject,
      ],
      { stdio: 'ignore' },
    );
  } catch {
    t.skip('needs openssl');
    return;
  }
  const message = { role: 'assistant', content: 'safe' };
  const server = createServer({ key: readFileSync(key), cert: readFileSync(cert) }, (request, response) => {
    request.resume();
    response.setHeader('content-type', 'application/json');
    response.end(JSON.stringify({ choices: [{ index: 0, message, finish_reason: 'stop' }] }));
  });
  await new Promise<void>((resolve) => server.listen(0, 'localhost', resolve));
  t.after(() => server.close());
  const baseUrl = `https://localhost:${(server.address() as AddressInfo).port}/v1`;
  const good = await runWorker(t, ['-p', 'x'], { home, baseUrl, env: { NODE_EXTRA_CA_CERTS: cert } });
  const last = terminal(good.events);
  assert.equal(last.type === 'done' ? last.text : JSON.stringify(last), 'safe');
  const bad = terminal((await runWorker(t, ['-p', 'x'], { home, baseUrl })).events);
  assert.equal(bad.type === 'error' ? bad.code : bad.type, 'model_network');
});
