// The read_file tool: a range of lines of a file of any size, in bounded memory.
import { defineTool, ToolError } from './define-tool.ts';
import { type LineRange, readLines } from './line-range.ts';
import { boundsOf, openInside } from './path-inside.ts';
import { headLength, MAX_TEXT_BYTES, withNote } from './text-limit.ts';

const DEFAULT_LINES = 2000;

interface Arguments {
  path: string;
  offset?: number | null;
  limit?: number | null;
}

export const readFileTool = defineTool<Arguments>({
  name: 'read_file',
  description:
    `Reads a text file: ${DEFAULT_LINES} lines or 50 KiB at most, whichever comes first; a note in brackets at the ` +
    'end says where to go on. Bytes that are not UTF-8 are shown as U+FFFD, binary files are refused. Only inside ' +
    'the working directory and /tmp.',
  parameters: {
    type: 'object',
    properties: {
      path: {
        type: 'string',
        minLength: 1,
        description: 'Path, relative to the working directory or absolute.',
      },
      offset: { type: 'integer', minimum: 1, description: 'First line to read; lines count from 1.' },
      limit: { type: 'integer', minimum: 1, description: `Lines to read. Default ${DEFAULT_LINES}.` },
    },
    required: ['path'],
    additionalProperties: false,
  },
  effect: 'pure',
  async run({ path, offset, limit }, { cwd, signal }) {
    const firstLine = offset ?? 1;
    const handle = await openInside(path, await boundsOf(cwd));
    try {
      const range = await readLines(handle, {
        firstLine,
        lines: limit ?? DEFAULT_LINES,
        maxBytes: MAX_TEXT_BYTES + 1,
        checkpoint: () => {
          if (signal.aborted) throw new ToolError('cancelled');
        },
      });
      return { content: render(path, firstLine, range), isError: false };
    } finally {
      await handle.close();
    }
  },
});

/** Whole lines of text may hold a stray NUL; where a tenth of the bytes is no text, the rest is none either. */
const BINARY_SHARE = 0.1;

function refuseBinary(path: string, firstLine: number, bytes: Buffer): void {
  if (!bytes.includes(0)) return;
  // biome-ignore lint/suspicious/noControlCharactersInRegex: these are what is looked for.
  const strange = bytes.toString('utf8').match(/[\0-\x06\x0e-\x1a\x1c-\x1f\x7f\ufffd]/g)?.length ?? 0;
  if (strange < bytes.length * BINARY_SHARE) return;
  const isUtf16 = firstLine === 1 && ['fffe', 'feff'].includes(bytes.toString('hex', 0, 2));
  const remedy = isUtf16
    ? 'it is UTF-16; convert it with iconv'
    : 'use read_image for an image, bash (file, xxd, strings) for others';
  throw new ToolError(`${path} is a binary file: ${remedy}`);
}

function render(path: string, firstLine: number, range: LineRange): string {
  if (range.bytes.length === 0) {
    if (range.linesBefore === 0 && firstLine === 1) return `[${path} is empty]`;
    const lines = range.linesBefore === 1 ? '1 line' : `${range.linesBefore} lines`;
    return `[line ${firstLine} is past the end: ${path} has ${lines}]`;
  }
  const { bytes } = range;
  refuseBinary(path, firstLine, bytes);
  const cut = headLength(bytes, MAX_TEXT_BYTES);
  if (cut === bytes.length) {
    const nextLine = firstLine + countLines(bytes);
    const text = shown(bytes, firstLine);
    return range.more ? withNote(text, `[more lines follow; go on with offset ${nextLine}]`) : text;
  }
  const lastBreak = bytes.lastIndexOf(0x0a, cut - 1);
  if (lastBreak === -1) {
    return withNote(
      shown(bytes.subarray(0, cut), firstLine),
      `[line ${firstLine} is longer than 50 KiB: only its first ${cut} bytes are shown; use bash for the rest]`,
    );
  }
  const whole = bytes.subarray(0, lastBreak + 1);
  return `${shown(whole, firstLine)}[cut at 50 KiB; go on with offset ${firstLine + countLines(whole)}]`;
}

/** A byte order mark is part of the file, not of its first line's text. */
function shown(bytes: Buffer, firstLine: number): string {
  const text = bytes.toString('utf8');
  return firstLine === 1 && text.startsWith('\ufeff') ? text.slice(1) : text;
}

function countLines(bytes: Buffer): number {
  let count = 0;
  for (let at = bytes.indexOf(0x0a); at !== -1; at = bytes.indexOf(0x0a, at + 1)) count++;
  return count;
}
