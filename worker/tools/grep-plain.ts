// Matches plain text without a thread of its own, which takes longer to start than most searches take.
import type { Hit, Matcher } from './grep-thread.ts';

const HIT_UNITS = 1024;
const LF = 0x0a;

/** The text that an expression without any operator stands for; null when it has one. */
export function plainTextOf(source: string): string | null {
  // Line ends are no part of a line, and U+FFFD stands for bytes that are not UTF-8: the thread knows both.
  return /[\\^$.*+?()[\]{}|\r\n\u2028\u2029\ufffd]/.test(source) ? null : source;
}

/** Finds lines that contain `text`, byte by byte: linear, so that nothing can make it slow. */
export function createPlainMatcher(text: string): Matcher {
  const needle = Buffer.from(text);
  return {
    async search(block, firstLine, maxHits) {
      const bytes = Buffer.from(block.buffer, block.byteOffset, block.byteLength);
      const hits: Hit[] = [];
      let lines = 0;
      let start = 0;
      let next = bytes.indexOf(needle);
      for (let lineBreak = bytes.indexOf(LF); ; lineBreak = bytes.indexOf(LF, start)) {
        const end = lineBreak === -1 ? bytes.length : lineBreak;
        if (next !== -1 && next < end) {
          if (hits.length < maxHits) hits.push(hitOf(bytes.subarray(start, end), firstLine + lines));
          next = bytes.indexOf(needle, end);
        }
        if (lineBreak === -1) return { hits, lines };
        lines++;
        start = lineBreak + 1;
      }
    },
    close: async () => {},
  };
}

function hitOf(bytes: Buffer, line: number): Hit {
  const text = (bytes.at(-1) === 0x0d ? bytes.subarray(0, -1) : bytes).toString('utf8');
  return { line, text: text.slice(0, HIT_UNITS), length: text.length };
}
