// Reads a job's event stream as a client does that may lose its connection: keeps what it got and its last cursor.
import type { Line } from '../support/daemon.ts';

export class Follower {
  readonly lines: Line[] = [];
  #url: string;
  #key: string;
  #abort = new AbortController();

  constructor(url: string, key: string) {
    this.#url = url;
    this.#key = key;
  }

  get jobId(): string {
    return this.lines[0]?.jobId ?? '';
  }

  get cursor(): string {
    const last = this.lines.at(-1);
    return `${last?.attempt ?? 0}-${last?.seq ?? 0}`;
  }

  /** Posts the job and reads until the connection breaks or the stream ends. */
  async post(body: Record<string, unknown>): Promise<void> {
    const headers = { ...this.#headers(), 'content-type': 'application/json' };
    await this.#read(`${this.#url}/v1/jobs`, { method: 'POST', headers, body: JSON.stringify(body) });
  }

  /** Attaches again after the last line that was read. */
  async attach(): Promise<void> {
    const url = `${this.#url}/v1/jobs/${this.jobId}/events?after=${this.cursor}&follow=true`;
    await this.#read(url, { headers: this.#headers() });
  }

  detach(): void {
    this.#abort.abort();
    this.#abort = new AbortController();
  }

  #headers(): Record<string, string> {
    return { authorization: `Bearer ${this.#key}` };
  }

  /** A line that the cut left unfinished is dropped: it comes again. Heartbeats have no place in the order. */
  async #read(url: string, init: RequestInit): Promise<void> {
    const response = await fetch(url, { ...init, signal: this.#abort.signal });
    if (response.status !== 200) throw new Error(`${url}: ${response.status} ${await response.text()}`);
    const decoder = new TextDecoder();
    let pending = '';
    try {
      for await (const bytes of response.body ?? []) {
        const parts = (pending + decoder.decode(bytes, { stream: true })).split('\n');
        pending = parts.pop() ?? '';
        for (const part of parts) {
          const line = JSON.parse(part) as Line;
          if (line.type !== 'heartbeat') this.lines.push(line);
        }
      }
    } catch (error) {
      if (!/terminated|aborted|closed|other side/i.test(String(error))) throw error;
    }
  }
}

/** What is wrong with the order of a job's lines, or null: every seq once, attempts rising, one `end` and that last. */
export function disorder(lines: readonly Line[]): string | null {
  let [attempt, seq] = [0, -1];
  for (const line of lines) {
    const next = line.attempt === attempt ? seq + 1 : 1;
    if (line.attempt < attempt || line.seq !== next) {
      return `after ${attempt}-${seq} came ${line.attempt}-${line.seq}`;
    }
    [attempt, seq] = [line.attempt, line.seq];
  }
  const ends = lines.filter(({ type }) => type === 'end').length;
  return ends === 1 && lines.at(-1)?.type === 'end'
    ? null
    : `${ends} end lines, last is ${lines.at(-1)?.type}`;
}
