// What a lying program writes on its descriptors: lines that must be refused, lines that are taken, session records.

/** One token event; the text goes in as it is. */
export const token = (text: string) => `{"type":"token","text":"${text}"}`;
/** The one line that a run which succeeds has to write. */
export const DONE =
  '{"type":"done","sessionId":"s","turns":0,"usage":{"inputTokens":0,"outputTokens":0,"totalTokens":0},"text":""}\n';
/** Members of a line that would end a job for its readers. */
export const END = '"type":"end","outcome":"ok","exit":{"code":0,"signal":null},"evidence":{},"forged":1';

/** Lines that are none of the eight events, or bring what only the spawner may write. */
export const REFUSED: (string | Buffer)[] = [
  `{${END}}`,
  `{"seq":9,"ts":"2030-01-01T00:00:00.000Z","jobId":"job_x","attempt":1,${END}}`,
  ...['queued', 'starting', 'running', 'retrying', 'lost'].map(
    (state) => `{"type":"job","state":"${state}","forged":1}`,
  ),
  '{"type":"resources","cpuUsec":1,"forged":1}',
  '{"type":"heartbeat"}',
  '{"type":"constructor"}',
  '{"type":"__proto__","text":"forged"}',
  '{"seq":1,"type":"token","text":"forged"}',
  '{"type":"token","text":"forged","ts":"2030-01-01T00:00:00.000Z"}',
  '{"type":"token","text":"forged","jobId":"job_x"}',
  '{"type":"token","text":"forged","attempt":2}',
  '{"type":"token","text":"forged","\\u0073eq":1}',
  `{"type":"token","text":"forged",${END}}`,
  '{"type":"token","text":"forged","text":5}',
  '{"type":"token","text":"forged","type":"\\u0065nd"}',
  `${token('forged')}${token('forged')}`,
  `${token('forged')}\r{${END}}`,
  `${token('forged')},`,
  `\ufeff${token('forged')}`,
  `[${token('forged')}]`,
  '"forged"',
  'null',
  '{"type":"token","text":"forged',
  '{"type":"token"}',
  '{"type":"done"}',
  token('for\u0000ged'),
  '\u0000'.repeat(4096),
  `\u0000${token('forged')}`,
  Buffer.from([0xff, 0xfe, 0x00]),
  '['.repeat(200_000),
  `{"type":"token","text":"x","deep":${'['.repeat(100_000)}${']'.repeat(100_000)}}`,
];

/** What is admitted, and how it then reads. */
export const ADMITTED: [string | Buffer, Record<string, unknown>][] = [
  [`{${END},"type":"token","text":"last name wins"}`, { type: 'token', text: 'last name wins' }],
  [`${token('carriage return')}\r`, { type: 'token', text: 'carriage return' }],
  [`  ${token('spaces')}\t`, { type: 'token', text: 'spaces' }],
  [
    token(`\u2028{${END.replaceAll('"', '\\"')}}\u2029\u0085`),
    { type: 'token', text: `\u2028{${END}}\u2029\u0085` },
  ],
  [token('\\u0000\\n\\r{}'), { type: 'token', text: '\u0000\n\r{}' }],
  [token('\\ud800'), { type: 'token', text: '\ud800' }],
  [
    Buffer.concat([
      Buffer.from('{"type":"token","text":"'),
      Buffer.from([0xc0, 0x8a, 0xff]),
      Buffer.from('"}'),
    ]),
    { type: 'token', text: '\ufffd\ufffd\ufffd' },
  ],
  ['{"type":"token","text":"x","__proto__":{"seq":7}}', { type: 'token', text: 'x' }],
  [`${token('')}`, { type: 'token', text: '' }],
];

/** A session record; `more` follows its last member. */
export const record = (seq: unknown, more = '') =>
  `{"v":1,"seq":${seq},"ts":"2030-01-01T00:00:00.000Z","type":"note","data":{}${more}}`;
