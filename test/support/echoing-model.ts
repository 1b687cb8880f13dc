// A provider that gives the Authorization header of a request back in every way that real ones were seen to, and
// otherwise does what the prompt says, as the obedient model.
import {
  contentChunk,
  type FakeOpenAI,
  type FakeRequest,
  type Reply,
  startFakeOpenAI,
  toolCallChunk,
} from '../../worker/index.ts';

const sse = (text: string): Reply => ({ sse: [contentChunk(text)] });
const error = (status: number, message: string, headers: Record<string, string> = {}): Reply => ({
  ...{ status, headers, json: { error: { message, type: 'invalid_request_error', code: message } } },
});

/** By what follows `echo ` in the prompt. */
const ECHOES: Record<string, (header: string) => Reply> = {
  stream: (header) => sse(header),
  split: (header) => ({
    raw: [...Buffer.from(`data: ${JSON.stringify(contentChunk(header))}\n\ndata: [DONE]\n\n`)].map((byte) =>
      Buffer.of(byte),
    ),
  }),
  refusal: (header) => error(401, `Incorrect API key provided: ${header}`),
  fault: (header) => error(500, `headers were {"authorization":"${header}"}`),
  wait: (header) => error(429, header, { 'retry-after': '0', 'x-seen': header, 'set-cookie': header }),
  redirect: (header) => ({
    status: 307,
    headers: { location: `http://127.0.0.1:1/?${header}` },
    body: header,
  }),
  html: (header) => ({ status: 502, headers: { 'content-type': 'text/html' }, body: `<pre>${header}</pre>` }),
  base64: (header) => sse(Buffer.from(header).toString('base64')),
  url: (header) => sse(encodeURIComponent(header)),
  'small url': (header) => sse(encodeURIComponent(header).replaceAll(/%../g, (code) => code.toLowerCase())),
  slashes: (header) => ({ raw: [`{"error":{"message":${JSON.stringify(header).replaceAll('/', '\\/')}}}`] }),
  plus: (header) => ({ raw: [`{"error":{"message":${JSON.stringify(header).replaceAll('+', '\\u002B')}}}`] }),
  bytes: (header) => ({ raw: [header] }),
};

export const ECHO_PROMPTS = Object.keys(ECHOES).map((name) => `echo ${name}`);

function promptOf({ body }: FakeRequest): { prompt: string; answered: boolean } {
  const messages = body.messages as { role: string; content: unknown }[];
  const last = messages.findLastIndex(({ role }) => role === 'user');
  const answered = messages.slice(last).some(({ role }) => role === 'tool');
  return { prompt: String(messages[last]?.content ?? ''), answered };
}

/** `planted` is what it says to the prompt "planted". */
export function startEchoingModel(planted: string): Promise<FakeOpenAI> {
  return startFakeOpenAI((request) => {
    const { prompt, answered } = promptOf(request);
    if (prompt === 'planted') return sse(planted);
    if (prompt === 'reset') return { fault: 'reset' };
    if (prompt.startsWith('bash: ') && !answered) {
      return { sse: [toolCallChunk('bash', { command: prompt.slice('bash: '.length) })] };
    }
    const echo = ECHOES[prompt.slice('echo '.length)];
    return echo !== undefined && prompt.startsWith('echo ')
      ? echo(request.headers.authorization ?? '')
      : sse('ok');
  });
}
