// One replacement in a file's text. Pure. Texts are latin1 images of the file's bytes: one character per byte.
import { ToolError } from './define-tool.ts';

export interface Edit {
  old_string: string;
  new_string: string;
  replace_all?: boolean | null;
}

interface Match {
  start: number;
  end: number;
}

const BYTE_ORDER_MARK = 'ï»¿';
const image = (text: string): string => Buffer.from(text, 'utf8').toString('latin1');

/**
 * Replaces `old_string` by `new_string`. LF and CRLF match each other; the new text gets the line ending of the
 * place where it goes, so a file keeps its own. A byte order mark stays at the start.
 * @throws ToolError when nothing matches, or several places do without `replace_all`.
 */
export function applyEdit(text: string, edit: Edit): { text: string; replacements: number } {
  if (edit.old_string === '') throw new ToolError('old_string is empty; write_file replaces a whole file');
  if (edit.old_string === edit.new_string) throw new ToolError('old_string and new_string are the same');
  const mark = text.startsWith(BYTE_ORDER_MARK) ? BYTE_ORDER_MARK : '';
  const body = text.slice(mark.length);
  const wanted = image(withoutMark(edit.old_string, mark));
  const matches = findMatches(body, wanted, edit.replace_all === true);
  if (matches.length === 0) {
    throw new ToolError('old_string was not found; it must match exactly, blanks and indentation included');
  }
  if (matches.length > 1 && edit.replace_all !== true) {
    throw new ToolError(
      `old_string occurs ${matches.length} times; add surrounding lines to make it unique or set replace_all`,
    );
  }
  const replacement = image(withoutMark(edit.new_string, mark));
  const pieces: string[] = [mark];
  let done = 0;
  for (const { start, end } of matches) {
    pieces.push(body.slice(done, start));
    pieces.push(replacement.replace(/\r?\n/g, () => lineEndingAt(body, start, end)));
    done = end;
  }
  pieces.push(body.slice(done));
  return { text: pieces.join(''), replacements: matches.length };
}

const withoutMark = (text: string, mark: string): string =>
  mark !== '' && text.startsWith('\ufeff') ? text.slice(1) : text;

/** All matches: side by side for replacing them, also overlapping ones for judging whether one is unique. */
function findMatches(body: string, wanted: string, sideBySide: boolean): Match[] {
  const lines = wanted.split(/\r?\n/);
  const matches: Match[] = [];
  let from = 0;
  for (let match = nextMatch(body, lines, from); match !== null; match = nextMatch(body, lines, from)) {
    matches.push(match);
    from = sideBySide ? match.end : match.start + (body.startsWith('\r\n', match.start) ? 2 : 1);
  }
  return matches;
}

/** The next place where the lines follow each other, each ended by LF or CRLF. */
function nextMatch(body: string, lines: string[], from: number): Match | null {
  const [first = '', ...others] = lines;
  for (let at = from; ; at++) {
    at = body.indexOf(first === '' ? '\n' : first, at);
    if (at === -1) return null;
    const start = first === '' && at > from && body[at - 1] === '\r' ? at - 1 : at;
    let end: number | null = start + first.length;
    for (const line of others) {
      end = afterLineEnding(body, end);
      if (end === null || !body.startsWith(line, end)) {
        end = null;
        break;
      }
      end += line.length;
    }
    if (end !== null) return { start, end };
  }
}

function afterLineEnding(body: string, at: number): number | null {
  if (body[at] === '\n') return at + 1;
  return body[at] === '\r' && body[at + 1] === '\n' ? at + 2 : null;
}

/** The ending inside the replaced text, else of the line that it ends in, else of the line before, else LF. */
function lineEndingAt(body: string, start: number, end: number): '\n' | '\r\n' {
  let newline = body.indexOf('\n', start);
  if (newline === -1 || newline >= end) newline = body.indexOf('\n', end);
  if (newline === -1) newline = body.lastIndexOf('\n', start);
  return newline > 0 && body[newline - 1] === '\r' ? '\r\n' : '\n';
}
