// What a log line may hold.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { loadConfig } from '../../daemon/config.ts';
import { createLogger } from '../../daemon/log.ts';

test('caller keys, the model key and the database password never reach a line, wherever they stand', () => {
  const lines: string[] = [];
  const config = loadConfig(
    { DJINN_API_KEY: 'sk-model-canary', DATABASE_URL: 'postgresql://u:db-canary@h/d' },
    0,
  );
  const log = createLogger(config, 'test', { write: (line) => void lines.push(line) });
  const caller = `djk_${'a'.repeat(43)}`;
  log.info(
    {
      headers: { authorization: `Bearer ${caller}` },
      apiKey: 'x-canary',
      a: { b: { password: 'y-canary' } },
    },
    'one',
  );
  log.error(
    { err: new Error(`upstream said sk-model-canary to ${caller}`) },
    'two: postgresql://u:db-canary@h/d',
  );
  const text = lines.join('');
  assert.equal(lines.length, 2);
  assert.doesNotMatch(text, /canary|aaaaaaaa/);
  assert.match(text, /djk_\[masked\]/);
});
