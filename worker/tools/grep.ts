// The grep tool: finds lines in files.
import { stat } from 'node:fs/promises';
import { basename } from 'node:path';
import { defineTool, describe } from './define-tool.ts';
import { compileGlob } from './glob-match.ts';
import { searchFile } from './grep-file.ts';
import { createPlainMatcher, plainTextOf } from './grep-plain.ts';
import { type Hit, type Matcher, startMatcher } from './grep-thread.ts';
import { boundsOf, resolveInside } from './path-inside.ts';
import { showPath } from './show-path.ts';
import { MAX_TEXT_BYTES, shortenLine, withNote } from './text-limit.ts';
import { createCheckpoint, type WalkOptions, walkFiles } from './walk.ts';

const DEFAULT_HITS = 200;
const MAX_HITS = 2000;
const MAX_LINE_UNITS = 400;

interface Arguments {
  pattern: string;
  path?: string | null;
  glob?: string | null;
  literal?: boolean | null;
  ignore_case?: boolean | null;
  limit?: number | null;
}

export const grepTool = defineTool<Arguments>({
  name: 'grep',
  description:
    'Finds the lines that match a JavaScript regular expression, as path:line:text. Binary files are left out, links ' +
    'to directories are not followed, .git and node_modules are left out unless path is inside them. Only inside ' +
    'the working directory and /tmp.',
  parameters: {
    type: 'object',
    properties: {
      pattern: {
        type: 'string',
        minLength: 1,
        maxLength: 4096,
        description: 'The expression; matched per line.',
      },
      path: {
        type: 'string',
        minLength: 1,
        description: 'File or directory. Default: the working directory.',
      },
      glob: {
        type: 'string',
        minLength: 1,
        maxLength: 1000,
        description: 'Only files that match, such as "*.ts" (by name) or "src/**/*.ts" (by path below path).',
      },
      literal: { type: 'boolean', description: 'The pattern is plain text.' },
      ignore_case: { type: 'boolean', description: 'Upper and lower case are the same.' },
      limit: {
        type: 'integer',
        minimum: 1,
        maximum: MAX_HITS,
        description: `Lines at most. Default ${DEFAULT_HITS}.`,
      },
    },
    required: ['pattern'],
    additionalProperties: false,
  },
  effect: 'pure',
  async run(args, { cwd, signal }) {
    const bounds = await boundsOf(cwd);
    const asked = args.path ?? '.';
    const start = await resolveInside(asked, bounds);
    const keep = fileFilter(args.glob ?? null);
    const report = createReport(args.limit ?? DEFAULT_HITS);
    const matcher = matcherFor(args);
    const onAbort = () => void matcher.close();
    signal.addEventListener('abort', onAbort);
    try {
      const options = { bounds, keep, checkpoint: createCheckpoint(signal), gaps: report.gaps };
      for await (const path of filesOf(start, options)) {
        const name = showPath(path, cwd, start, asked);
        const found = await searchFile(path, bounds, matcher, report.room() + 1);
        if (found === 'binary') report.gaps.binary++;
        else if (found === 'unreadable') report.gaps.unreadable++;
        else for (const hit of found) report.add(name, hit);
        if (report.room() < 0) break;
      }
      return { content: report.text(), isError: false };
    } catch (error) {
      const reason = signal.aborted ? 'cancelled' : describe(error);
      return { content: withNote(report.text(), `grep: ${reason}`), isError: true };
    } finally {
      signal.removeEventListener('abort', onAbort);
      await matcher.close();
    }
  },
});

function matcherFor(args: Arguments): Matcher {
  const ignoreCase = args.ignore_case === true;
  const plain = ignoreCase ? null : plainTextOf(args.pattern);
  return plain === null ? startMatcher(sourceOf(args), ignoreCase) : createPlainMatcher(plain);
}

const sourceOf = ({ pattern, literal }: Arguments): string =>
  literal ? pattern.replace(/[\\^$.*+?()[\]{}|/]/g, '\\$&') : pattern;

/** A pattern without a slash judges the name alone. */
function fileFilter(glob: string | null): (relative: string) => boolean {
  if (glob === null) return () => true;
  const matches = compileGlob(glob);
  return glob.includes('/') ? matches : (relative) => matches(basename(relative));
}

async function* filesOf(start: string, options: WalkOptions): AsyncGenerator<string> {
  if (!(await stat(start)).isDirectory()) yield start;
  else for await (const file of walkFiles(start, options)) yield file.path;
}

function createReport(limit: number) {
  const gaps = { unreadable: 0, binary: 0 };
  const lines: string[] = [];
  let bytes = 0;
  let cut = false;
  return {
    gaps,
    /** Lines that still fit; below 0 when one did not. */
    room: () => (cut ? -1 : limit - lines.length),
    add(name: string, hit: Hit) {
      const line = `${name}:${hit.line}:${shortenLine(hit.text, MAX_LINE_UNITS, hit.length)}`;
      bytes += Buffer.byteLength(line) + 1;
      cut ||= lines.length === limit || bytes > MAX_TEXT_BYTES;
      if (!cut) lines.push(line);
    },
    text() {
      const notes: string[] = [];
      if (lines.length === 0) notes.push('[no lines match]');
      if (cut) notes.push(`[only the first ${lines.length} lines are listed; narrow the search]`);
      if (gaps.binary > 0) notes.push(`[binary files left out: ${gaps.binary}]`);
      if (gaps.unreadable > 0)
        notes.push(`[files or directories that could not be read: ${gaps.unreadable}]`);
      return [...lines, ...notes].join('\n');
    },
  };
}
