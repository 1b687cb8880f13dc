// Judges what a guest printed. Silence is a failure: a machine that ran no test has proven nothing.

export interface Verdict {
  ok: boolean;
  /** One sentence for the report. */
  text: string;
}

/** Reads the totals at the end of node:test's `spec` or `tap` output. */
export function judge(output: string, status: number | null): Verdict {
  const totals = readTotals(output);
  if (totals === null) {
    const why =
      status === 124 ? 'ran out of time' : status === 125 ? 'did not start' : `ended with status ${status}`;
    return { ok: false, text: `the guest ${why} and reported no totals` };
  }
  const { tests, pass, fail, cancelled, skipped } = totals;
  const text = `${tests} tests: ${pass} passed, ${fail} failed, ${cancelled} cancelled, ${skipped} skipped`;
  if (pass === 0) return { ok: false, text: `no test ran (${text})` };
  if (status !== 0) return { ok: false, text: `status ${status}, ${text}` };
  return { ok: fail === 0 && cancelled === 0, text };
}

/**
 * Files whose process died without a word, or in V8's book-keeping of compiled code: about one Node process in twenty does
 * so when it is emulated. Null when a test failed for any other reason.
 */
export function crashedFiles(output: string): string[] | null {
  // biome-ignore lint/suspicious/noControlCharactersInRegex: the colours of a terminal are control characters
  const plain = output.replaceAll(/\u001b\[[0-9;]*m/g, '').replaceAll('\r', '');
  const [, ...failures] = (plain.split('failing tests:')[1] ?? '').split(/^test at (?=\S+:\d+:\d+$)/m);
  const crashed = failures.map((text) => {
    const [, file = '', body = ''] = /^(\S+?):\d+:\d+\n([\s\S]*)$/.exec(text) ?? [];
    const died =
      /^\s*'test failed'\s*$/m.test(body) || body.includes('Check failed: it->second.Size() > offset');
    return died ? file : null;
  });
  if (crashed.length === 0 || crashed.includes(null)) return null;
  return [...new Set(crashed as string[])];
}

interface Totals {
  tests: number;
  pass: number;
  fail: number;
  cancelled: number;
  skipped: number;
}

function readTotals(output: string): Totals | null {
  // biome-ignore lint/suspicious/noControlCharactersInRegex: the colours of a terminal are control characters
  const plain = output.replaceAll(/\u001b\[[0-9;]*m/g, '');
  const total = (name: string): number => {
    const last = [...plain.matchAll(new RegExp(`^[#ℹ] ${name} (\\d+)\\r?$`, 'gm'))].at(-1);
    return last ? Number(last[1]) : Number.NaN;
  };
  const totals = {
    tests: total('tests'),
    pass: total('pass'),
    fail: total('fail'),
    cancelled: total('cancelled'),
    skipped: total('skipped'),
  };
  return Object.values(totals).some(Number.isNaN) ? null : totals;
}
