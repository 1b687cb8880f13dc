import assert from 'node:assert/strict';
import { test } from 'node:test';
import { decideEnding, type EndFacts } from '../../../daemon/spawner/outcome.ts';

const exited = (code: number | null, signal: string | null = null) =>
  ({ kind: 'exited', code, signal }) as const;
const failedAt = {
  kind: 'spawn_failed',
  stage: 'exec',
  errno: 'ENOENT',
  message: 'no such program',
} as const;
const cancelled = { outcome: 'cancelled', cause: { code: 'cancelled', message: 'cancelled' } } as const;
const error = { code: 'model_refused', message: 'no' };
const quiet = { lastType: null, wentOn: false, error: null };
const done = { lastType: 'done', wentOn: false, error: null } as const;

const TABLE: [string, Partial<EndFacts>, string, string | undefined][] = [
  ['exit 0 and done', { end: exited(0), protocol: done }, 'ok', undefined],
  [
    'exit 0, done, and a helper killed for memory',
    { end: exited(0), protocol: done, agentOomKills: 1 },
    'ok',
    undefined,
  ],
  [
    'exit 0 after an error that was overcome',
    { end: exited(0), protocol: { ...done, error } },
    'ok',
    undefined,
  ],
  ['exit 0 without done', { end: exited(0) }, 'failed', 'no_done'],
  [
    'exit 0 with something after done',
    { end: exited(0), protocol: { ...done, wentOn: true } },
    'failed',
    'after_done',
  ],
  [
    'exit 0 with error as the last event',
    { end: exited(0), protocol: { ...quiet, lastType: 'error', error } },
    'failed',
    'model_refused',
  ],
  [
    'exit 1 with an error event',
    { end: exited(1), protocol: { ...quiet, lastType: 'error', error } },
    'failed',
    'model_refused',
  ],
  ['exit 1 after done', { end: exited(1), protocol: done }, 'failed', 'exit_code'],
  ['exit 7 without a word', { end: exited(7) }, 'failed', 'exit_code'],
  ['a signal', { end: exited(null, 'SIGSEGV'), protocol: done }, 'failed', 'signal'],
  ['neither code nor signal', { end: exited(null), protocol: done }, 'failed', 'end_unknown'],
  ['137 and the agent killed for memory', { end: exited(137), agentOomKills: 2 }, 'oom', 'agent_oom'],
  [
    'killed and the agent killed for memory',
    { end: exited(null, 'SIGKILL'), agentOomKills: 1 },
    'oom',
    'agent_oom',
  ],
  ['137 without evidence of memory', { end: exited(137), agentOomKills: 0 }, 'failed', 'exit_code'],
  ['137 on a kernel that does not count', { end: exited(137), agentOomKills: null }, 'failed', 'exit_code'],
  ['a sandbox that failed', { end: failedAt }, 'spawn_failed', 'spawn_failed'],
  [
    'cancelled, then exit 0 with done',
    { stop: cancelled, end: exited(0), protocol: done },
    'cancelled',
    'cancelled',
  ],
  [
    'cancelled, then killed for memory',
    { stop: cancelled, end: exited(137), agentOomKills: 1 },
    'cancelled',
    'cancelled',
  ],
  ['cancelled before the launch', { stop: cancelled, end: null }, 'cancelled', 'cancelled'],
  ['cancelled, so the launch failed', { stop: cancelled, end: failedAt }, 'cancelled', 'cancelled'],
  ['an end that nobody saw', { end: null, protocol: done }, 'lost', 'end_unknown'],
];

for (const [name, facts, outcome, code] of TABLE) {
  test(`${name}: ${outcome}`, () => {
    const ending = decideEnding({ stop: null, end: null, protocol: quiet, agentOomKills: null, ...facts });
    assert.equal(ending.outcome, outcome);
    assert.equal(ending.cause?.code, code);
  });
}

test('a failed launch names its stage and errno', () => {
  const { cause, exit } = decideEnding({ stop: null, end: failedAt, protocol: quiet, agentOomKills: null });
  assert.deepEqual([cause?.stage, cause?.errno, exit], ['exec', 'ENOENT', null]);
});

test('success takes exit code 0, done last, and nothing else, over every combination', () => {
  for (const code of [null, 0, 1, 137]) {
    for (const signal of [null, 'SIGKILL']) {
      for (const lastType of [null, 'done', 'token', 'error'] as const) {
        for (const [stop, wentOn] of [
          [null, false],
          [null, true],
          [cancelled, false],
        ] as const) {
          const end = exited(code, signal);
          const { outcome } = decideEnding({
            stop,
            end,
            protocol: { lastType, wentOn, error: null },
            agentOomKills: 0,
          });
          const success = code === 0 && lastType === 'done' && stop === null && signal === null && !wentOn;
          assert.equal(outcome === 'ok', success, JSON.stringify({ code, signal, lastType, stop, wentOn }));
        }
      }
    }
  }
});
