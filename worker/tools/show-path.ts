// How a file found by a search is named in a result.
import { relative, resolve } from 'node:path';

/**
 * A file's path as the other tools take it: relative to the working directory where it lies below it. Names with
 * control characters are quoted, so that none can pass for two lines.
 */
export function showPath(file: string, cwd: string, start: string, asked: string): string {
  const absolute = resolve(cwd, asked, relative(start, file));
  const below = relative(resolve(cwd), absolute);
  const shown = below.startsWith('../') ? absolute : below;
  // biome-ignore lint/suspicious/noControlCharactersInRegex: these are what is looked for.
  return /[\u0000-\u001f\u007f-\u009f\u2028\u2029]/.test(shown) ? JSON.stringify(shown) : shown;
}
