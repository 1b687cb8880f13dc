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
