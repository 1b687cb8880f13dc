// The provider's key is in nothing that a sandbox, a log or a metric can show (C136); the same search finds it when planted.
import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { type TestContext, test } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';
import fc from 'fast-check';
import { createScrubber, scrubText, secretForms } from '../../../daemon/gateway/scrub.ts';
import { ask, chat, KEY, openGateway } from '../../support/gateway.ts';
import { DONE, type Script, startUpstream, textChunk, usageChunk } from '../../support/upstream.ts';

/** Every form in which a careless program might repeat a key. */
const FORMS: Record<string, (key: string) => string> = {
  plain: (key) => key,
  bearer: (key) => `Bearer ${key}`,
  base64: (key) => Buffer.from(key).toString('base64'),
  'base64 of the header': (key) => Buffer.from(`Bearer ${key}`).toString('base64'),
  'base64 of user:key': (key) => Buffer.from(`u:${key}`).toString('base64'),
  base64url: (key) => Buffer.from(`authorization=${key}`).toString('base64url'),
  'percent-encoded': (key) => encodeURIComponent(`Bearer ${key}`),
  'percent-encoded in small letters': (key) =>
    encodeURIComponent(key).replaceAll(/%../g, (code) => code.toLowerCase()),
  'JSON with escaped slashes': (key) => JSON.stringify(key).replaceAll('/', '\\/'),
  'JSON with an escaped plus': (key) => JSON.stringify(key).replaceAll('+', '\\u002B'),
};

/** Whether a text shows the key; the search itself is tried on planted ones below. */
function shows(text: string, key: string): boolean {
  return secretForms(key).some((form) => text.includes(form.toString()));
}

const hostileKey = 'sk+CANARY/2=ä"\\ %41-ffffffff';

test('the search finds a planted key in every form', () => {
  for (const key of [KEY, hostileKey]) {
    for (const [name, form] of Object.entries(FORMS)) assert.ok(shows(`xx ${form(key)} yy`, key), name);
  }
  assert.ok(!shows('nothing to see', KEY));
});

for (const status of [200, 400, 401, 429, 500]) {
  test(`an upstream that answers ${status} and repeats the key in every way gives nothing away`, async (t) => {
    const script: Script = async (response, { headers }) => {
      const key = String(headers.authorization).replace('Bearer ', '');
      const echo = Object.values(FORMS).map((form) => form(key));
      response.writeHead(status, {
        'content-type': status === 200 ? 'text/event-stream' : `application/json; x=${key}`,
        'retry-after': status === 429 ? key : '1',
        'x-request-id': key,
        'set-cookie': `key=${key}`,
        'www-authenticate': `Bearer ${key}`,
        warning: key,
      });
      response.write(`data: ${JSON.stringify({ error: { message: echo.join(' | '), headers } })}\n\n`);
      // Also one byte at a time, so that every border between chunks is tried.
      for (const byte of Buffer.from(`data: {"x":"Incorrect API key: ${key}"}\n\n`)) {
        response.write(Buffer.from([byte]));
        await sleep(0);
      }
      response.write(usageChunk(1, 2));
      response.end(DONE);
    };
    const upstream = await startUpstream(t, script);
    const gateway = await openGateway(t, upstream.baseUrl);
    const answer = await ask(gateway.socketPath, chat({ stream: true }));
    assert.equal(upstream.seen[0]?.headers.authorization, `Bearer ${KEY}`);
    const everything = [
      answer.text,
      JSON.stringify(answer.headers),
      ...gateway.log,
      await gateway.metrics.registry.metrics(),
    ];
    assert.ok(!shows(everything.join('\n'), KEY));
    assert.equal(answer.status, status);
    assert.ok(answer.text.includes('Incorrect API key: [masked]"}'));
    assert.ok(answer.text.endsWith(usageChunk(1, 2) + DONE));
  });
}

test('failures to connect give nothing away either', async (t) => {
  const tls = selfSigned(t);
  const upstream = await startUpstream(t, (response) => void response.end(), { tls });
  const dead = await startUpstream(t, (response) => void response.destroy());
  const urls = [
    upstream.baseUrl,
    dead.baseUrl,
    'http://127.0.0.1:1/v1',
    'unix:/nowhere/up.sock:/v1',
    'http://no-such-host.invalid/v1',
  ];
  for (const baseUrl of urls) {
    const gateway = await openGateway(t, baseUrl);
    const answer = await ask(
      gateway.socketPath,
      chat({ messages: [{ role: 'user', content: 'PROMPTCANARY' }] }),
    );
    assert.equal(answer.status, 502, baseUrl);
    const everything = [answer.text, JSON.stringify(answer.headers), ...gateway.log].join('\n');
    assert.ok(!shows(everything, KEY), baseUrl);
    assert.doesNotMatch(everything, /PROMPTCANARY/);
    assert.deepEqual(gateway.spent, [], baseUrl);
  }
});

test('a certificate that nobody vouches for is refused before the key is sent', async (t) => {
  const upstream = await startUpstream(t, (response) => void response.end('{}'), { tls: selfSigned(t) });
  const { socketPath } = await openGateway(t, upstream.baseUrl);
  const answer = await ask(socketPath, chat());
  assert.equal(answer.status, 502);
  assert.match(answer.error.message, /SELF_SIGNED|DEPTH_ZERO|UNABLE_TO_VERIFY/);
  assert.equal(upstream.seen.length, 0);
});

test('prompts, answers and sandbox headers are not logged', async (t) => {
  const upstream = await startUpstream(t, (response) => {
    response.writeHead(200, { 'content-type': 'text/event-stream' });
    response.end(textChunk('ANSWERCANARY') + DONE);
  });
  const gateway = await openGateway(t, upstream.baseUrl);
  const body = chat({ stream: true, messages: [{ role: 'user', content: 'PROMPTCANARY' }] });
  await ask(gateway.socketPath, body, { headers: { authorization: 'Bearer HEADERCANARY' } });
  await ask(gateway.socketPath, 'BODYCANARY{', { headers: { authorization: 'Bearer HEADERCANARY' } });
  await ask(gateway.socketPath, body, { path: '/PATHCANARY' });
  assert.ok(gateway.log.length >= 3);
  assert.doesNotMatch(gateway.log.join(''), /CANARY/);
});

test('a scrubbed stream is the plain one with the key masked, whatever the borders', () => {
  const pieces = fc.array(
    fc.oneof(fc.constant(KEY), fc.constant(KEY.slice(0, 9)), fc.constant(KEY.slice(5)), fc.string()),
    {
      maxLength: 12,
    },
  );
  fc.assert(
    fc.property(pieces, fc.array(fc.nat(200), { maxLength: 20 }), (parts, cuts) => {
      const whole = Buffer.from(parts.join(''));
      const borders = [...new Set([0, ...cuts.filter((cut) => cut < whole.length), whole.length])].sort(
        (a, b) => a - b,
      );
      const scrubber = createScrubber(KEY);
      const out = borders
        .slice(1)
        .map((end, n) => Buffer.from(scrubber.push(whole.subarray(borders[n], end))));
      const text = Buffer.concat([...out, scrubber.flush()]).toString();
      assert.equal(text, whole.toString().replaceAll(KEY, '[masked]'));
      assert.equal(scrubText(whole.toString(), KEY), text);
    }),
    { numRuns: 500 },
  );
});

test('ordinary answers pass through the scrubber as the very same buffer', () => {
  const scrubber = createScrubber(KEY);
  const chunk = Buffer.from(textChunk('hello'));
  assert.equal(scrubber.push(chunk), chunk);
  assert.equal(createScrubber(null).push(chunk), chunk);
  assert.equal(scrubText('short key', 'short'), 'short key');
});

function selfSigned(t: TestContext): { key: string; cert: string } {
  const dir = mkdtempSync(join(tmpdir(), 'djtls-'));
  t.after(() => rmSync(dir, { recursive: true, force: true }));
  const [key, cert] = [join(dir, 'key'), join(dir, 'cert')];
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
      '-days',
      '1',
      '-subj',
      '/CN=127.0.0.1',
      '-keyout',
      key,
      '-out',
      cert,
    ],
    { stdio: 'ignore' },
  );
  return { key: readFileSync(key, 'utf8'), cert: readFileSync(cert, 'utf8') };
}
