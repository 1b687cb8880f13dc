import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { type TestContext, test } from 'node:test';
import { contentChunk, toolCallChunk } from '../../worker/index.ts';
import { doneText, errorCode, startFake } from './scripted-run.ts';
import { makeFolder, runWorker } from './worker-process.ts';

/** A key and a certificate of our own for 127.0.0.1, or null without openssl. */
function makeCertificate(home: string): { keyFile: string; certFile: string } | null {
  const [keyFile, certFile] = [join(home, 'key.pem'), join(home, 'cert.pem')];
  const curve = ['-newkey', 'ec', '-pkeyopt', 'ec_paramgen_curve:prime256v1', '-nodes', '-days', '2'];
  const name = ['-subj', '/CN=127.0.0.1', '-addext', 'subjectAltName=IP:127.0.0.1'];
  try {
    const files = ['-keyout', keyFile, '-out', certFile];
    execFileSync('openssl', ['req', '-x509', ...curve, ...name, ...files], { stdio: 'ignore' });
    return { keyFile, certFile };
  } catch {
    return null;
  }
}

async function startTls(t: TestContext, home: string) {
  const files = makeCertificate(home);
  if (files === null) {
    t.skip('needs openssl');
    return null;
  }
  const tls = { key: readFileSync(files.keyFile, 'utf8'), cert: readFileSync(files.certFile, 'utf8') };
  const calls = [toolCallChunk('glob', { pattern: '*' })];
  const fake = await startFake(t, [{ sse: calls }, { sse: [contentChunk('sa'), contentChunk('fe')] }], {
    tls,
  });
  return { fake, certFile: files.certFile };
}

test('a model behind https is asked, streams and is asked again', async (t) => {
  const home = makeFolder(t);
  const started = await startTls(t, home);
  if (started === null) return;
  const { fake, certFile } = started;
  assert.match(fake.baseUrl, /^https:/);
  const env = { NODE_EXTRA_CA_CERTS: certFile };
  const end = await runWorker(t, ['-p', 'x'], { home, baseUrl: fake.baseUrl, env });
  assert.equal(doneText(end), 'safe');
  assert.equal(fake.requests.length, 2);
});

test('a certificate that nobody vouches for, or of another name, is refused, and no key is sent', async (t) => {
  const home = makeFolder(t);
  const started = await startTls(t, home);
  if (started === null) return;
  const { fake, certFile } = started;
  const unknown = await runWorker(t, ['-p', 'x'], { home, baseUrl: fake.baseUrl });
  assert.equal(errorCode(unknown), 'model_network');
  const env = { NODE_EXTRA_CA_CERTS: certFile };
  const baseUrl = fake.baseUrl.replace('127.0.0.1', 'localhost');
  assert.equal(errorCode(await runWorker(t, ['-p', 'x'], { home, baseUrl, env })), 'model_network');
  assert.equal(fake.requests.length, 0);
});

test('https to a server that speaks plain http fails as the network does', async (t) => {
  const fake = await startFake(t, [{ sse: [contentChunk('x')] }]);
  const baseUrl = fake.baseUrl.replace('http:', 'https:');
  assert.equal(errorCode(await runWorker(t, ['-p', 'x'], { home: makeFolder(t), baseUrl })), 'model_network');
  assert.equal(fake.requests.length, 0);
});
