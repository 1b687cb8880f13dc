// Matches relative paths against a glob: * ? [...] {a,b} and ** for any number of directories. Pure, and never slower
// than the product of the two lengths: a hostile pattern costs no more than a plain one.
import { ToolError } from './define-tool.ts';

const MAX_ALTERNATIVES = 256;

/** Compiles a pattern. @throws ToolError when it has more than 256 alternatives. */
export function compileGlob(pattern: string): (path: string) => boolean {
  const alternatives = expandBraces(pattern).map((alternative) =>
    alternative
      .split('/')
      .filter((segment) => segment !== '' && segment !== '.')
      .map((segment) => (segment === '**' ? '**' : parseSegment(segment))),
  );
  return (path) => {
    const segments = path.split('/').map((segment) => Array.from(segment));
    return alternatives.some((alternative) =>
      matchStars(
        alternative,
        segments,
        (part) => part === '**',
        (part, segment) =>
          part !== '**' &&
          matchStars(
            part,
            segment,
            (token) => token === 'star',
            (token, char) => typeof token === 'function' && token(char),
          ),
      ),
    );
  };
}

type Token = 'star' | ((char: string) => boolean);

/** Two cursors; a mismatch goes back to the last star only, which is enough for wildcards that match anything. */
function matchStars<Part, Item>(
  parts: readonly Part[],
  items: readonly Item[],
  isStar: (part: Part) => boolean,
  matches: (part: Part, item: Item) => boolean,
): boolean {
  let part = 0;
  let item = 0;
  let star = -1;
  let starItem = 0;
  while (item < items.length) {
    if (part < parts.length && isStar(parts[part] as Part)) {
      star = part++;
      starItem = item;
    } else if (part < parts.length && matches(parts[part] as Part, items[item] as Item)) {
      part++;
      item++;
    } else if (star !== -1) {
      part = star + 1;
      item = ++starItem;
    } else return false;
  }
  while (part < parts.length && isStar(parts[part] as Part)) part++;
  return part === parts.length;
}

function parseSegment(segment: string): Token[] {
  const chars = Array.from(segment);
  const tokens: Token[] = [];
  for (let at = 0; at < chars.length; at++) {
    const char = chars[at] as string;
    const close = char === '[' ? closingBracket(chars, at) : -1;
    if (char === '*') tokens.push('star');
    else if (char === '?') tokens.push(() => true);
    else if (close !== -1) {
      tokens.push(parseClass(chars.slice(at + 1, close)));
      at = close;
    } else {
      const literal = char === '\\' && at + 1 < chars.length ? (chars[++at] as string) : char;
      tokens.push((candidate) => candidate === literal);
    }
  }
  return tokens;
}

/** A bracket right after the opening one (or its negation) is a member; without a closing one, `[` is literal. */
function closingBracket(chars: string[], open: number): number {
  const first = chars[open + 1] === '!' || chars[open + 1] === '^' ? open + 2 : open + 1;
  return chars.indexOf(']', first + 1);
}

function parseClass(body: string[]): (char: string) => boolean {
  const negated = body[0] === '!' || body[0] === '^';
  const members = negated ? body.slice(1) : body;
  const ranges: [string, string][] = [];
  for (let at = 0; at < members.length; at++) {
    const low = members[at] as string;
    const high = members[at + 1] === '-' ? members[at + 2] : undefined;
    ranges.push([low, high ?? low]);
    if (high !== undefined) at += 2;
  }
  return (char) => ranges.some(([low, high]) => low <= char && char <= high) !== negated;
}

/** `a{b,c}d` to `abd` and `acd`, nested ones too; a brace without its partner or without a comma is literal. */
function expandBraces(pattern: string): string[] {
  const done: string[] = [];
  const open = [pattern];
  while (open.length > 0) {
    const next = open.pop() as string;
    const group = findGroup(next);
    if (group === null) done.push(next);
    else {
      const { start, end, options } = group;
      for (const option of options) open.push(next.slice(0, start) + option + next.slice(end));
    }
    if (open.length + done.length > MAX_ALTERNATIVES) {
      throw new ToolError(`the pattern has more than ${MAX_ALTERNATIVES} alternatives`);
    }
  }
  return done;
}

/** The first innermost group with a comma: groups are expanded from the inside. */
function findGroup(pattern: string): { start: number; end: number; options: string[] } | null {
  const found = /\{([^{}]*,[^{}]*)\}/.exec(pattern);
  if (found === null) return null;
  const options = (found[1] as string).split(',');
  return { start: found.index, end: found.index + found[0].length, options };
}
