import assert from 'node:assert/strict';
import { test } from 'node:test';
import fc from 'fast-check';
import { Refusal } from '../../../daemon/spawner/refusal.ts';
import {
  checkRequest,
  clampLimits,
  clampTotals,
  defaultCeilings,
  requestId,
} from '../../../daemon/spawner/request.ts';

const limits = { memoryBytes: 1, pids: 1, cpuPercent: 1, wallMs: 1, outputBytes: 1, diskBytes: 1 };
const start = {
  jobId: 'job_a',
  attempt: 1,
  lastAttempt: false,
  tenantId: 'acme',
  sessionId: 'ses_1',
  engine: 'djinn',
  limits,
  totals: { pids: 10 },
  network: 'none',
  payload: {
    prompt: 'hello',
    images: [{ mediaType: 'image/png', data: 'AAAA' }],
    systemPrompt: 's',
    models: [{ id: 'm', inputLimit: 1 }],
    tools: { allow: ['bash'], deny: [] },
    sandboxMode: 'read-only',
  },
};
const ref = { jobId: 'job_a', attempt: 1 };
const VALID: [string, unknown][] = [
  ['hello', {}],
  ['list', {}],
  ['start', start],
  ['start', { ...start, attempt: 2, retryReason: 'lost' }],
  ['go', ref],
  ['cancel', { ...ref, cause: 'budget' }],
  ['forget', ref],
  ['prune', { jobId: 'job_a' }],
  ['tenant', { tenantId: 'acme' }],
];

for (const [method, params] of VALID) {
  test(`${method} passes unchanged`, () => {
    assert.deepEqual(checkRequest({ id: 1, method, params }), { id: 1, method, params });
  });
}

/** Every path to a value in the tree. */
function paths(value: unknown, at: (string | number)[] = []): (string | number)[][] {
  if (typeof value !== 'object' || value === null) return [at];
  return [
    at,
    ...Object.entries(value).flatMap(([name, child]) =>
      paths(child, [...at, Array.isArray(value) ? Number(name) : name]),
    ),
  ];
}

function replaced(value: unknown, path: (string | number)[], by: unknown): unknown {
  const copy = structuredClone(value) as Record<string | number, unknown>;
  if (path.length === 0) return by;
  let at = copy;
  for (const name of path.slice(0, -1)) at = at[name] as Record<string | number, unknown>;
  at[path.at(-1) ?? ''] = by;
  return copy;
}

const refuses = (message: unknown): void => {
  assert.throws(
    () => checkRequest(message),
    (error) => error instanceof Refusal && error.code === 'bad_request',
    JSON.stringify(message),
  );
};

test('a wrong value anywhere is refused', () => {
  const wrong = [
    null,
    {},
    [],
    -1,
    0,
    1.5,
    Number.NaN,
    Number.POSITIVE_INFINITY,
    2 ** 60,
    '\u0000',
    'a/../b',
    true,
    'x'.repeat(300),
  ];
  for (const [method, params] of VALID) {
    const message = { id: 1, method, params };
    for (const path of paths(message).filter((at) => at.length > 0)) {
      for (const value of wrong) {
        const changed = replaced(message, path, value);
        try {
          checkRequest(changed);
        } catch (error) {
          assert.ok(error instanceof Refusal && error.code === 'bad_request', String(error));
          continue;
        }
        // What still passes has the same type and shape as what it replaced.
        const before = path.reduce<unknown>(
          (at, name) => (at as Record<string | number, unknown>)[name],
          message,
        );
        const same = typeof value === typeof before && Array.isArray(value) === Array.isArray(before);
        assert.ok(same && value !== null, `${method} ${path.join('.')} took ${JSON.stringify(value)}`);
      }
    }
  }
});

test('an unknown field anywhere is refused', () => {
  for (const [method, params] of VALID) {
    const message = { id: 1, method, params };
    for (const path of paths(message)) {
      const at = path.reduce<unknown>(
        (value, name) => (value as Record<string | number, unknown>)[name],
        message,
      );
      if (typeof at !== 'object' || at === null || Array.isArray(at)) continue;
      refuses(replaced(message, [...path, 'uid'], 0));
      refuses(
        JSON.parse(JSON.stringify(replaced(message, [...path, 'uid'], 0)).replace('"uid"', '"__proto__"')),
      );
    }
  }
});

test('ids that could be paths, commands or other names are refused', () => {
  const ids = [
    '',
    '.',
    '..',
    'job_',
    'job_a/b',
    'job_a\n',
    '../job_a',
    'job_é',
    `job_${'a'.repeat(65)}`,
    'JOB_a',
    'job_a b',
    '-rf',
  ];
  for (const jobId of ids) refuses({ id: 1, method: 'go', params: { jobId, attempt: 1 } });
  for (const tenantId of ['', '.', '..', 'a/b', 'a\n', 'a'.repeat(65), 'é', 'a b']) {
    refuses({ id: 1, method: 'tenant', params: { tenantId } });
  }
  for (const engine of ['', 'Djinn', '/bin/sh', '1a', '../x', 'a'.repeat(33), 'constructor ']) {
    refuses({ id: 1, method: 'start', params: { ...start, engine } });
  }
});

test('unknown methods are refused, also those that every object has', () => {
  for (const method of ['constructor', 'toString', '__proto__', 'hasOwnProperty', 'exec', '']) {
    refuses({ id: 1, method, params: {} });
  }
});

test('a retry must say why, and a first attempt must not', () => {
  refuses({ id: 1, method: 'start', params: { ...start, attempt: 2 } });
  refuses({ id: 1, method: 'start', params: { ...start, retryReason: 'lost' } });
});

test('anything at all is either a checked request or a refusal', () => {
  fc.assert(
    fc.property(fc.anything(), (message) => {
      requestId(message);
      refuses(message);
    }),
    { numRuns: 2000 },
  );
});

test('limits are clamped to the ceilings of this machine, one by one', () => {
  const ceilings = defaultCeilings({ memoryBytes: 1000, cores: 2 });
  const huge = {
    memoryBytes: 2000,
    pids: 1e9,
    cpuPercent: 900,
    wallMs: 1e12,
    outputBytes: 1e15,
    diskBytes: 1e15,
  };
  assert.deepEqual(clampLimits(huge, ceilings), ceilings);
  assert.deepEqual(clampLimits(limits, ceilings), limits);
  assert.ok(ceilings.wallMs < 2 ** 31, 'a longer timer would fire at once');
  assert.deepEqual(clampTotals({ memoryBytes: 2000 }, ceilings), { memoryBytes: 1000 });
  assert.deepEqual(clampTotals({}, ceilings), {});
});
