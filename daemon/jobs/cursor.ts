// Cursors: `"<attempt>-<seq>"` of an event line, and the opaque one of the job list. Pure.
import { Problem } from '../errors.ts';

export interface EventCursor {
  attempt: number;
  seq: number;
}

/** Parses an event cursor. Throws Problem DJ_CURSOR_INVALID. */
export function parseEventCursor(text: string): EventCursor {
  const match = /^(0|[1-9]\d{0,8})-(0|[1-9]\d{0,14})$/.exec(text);
  if (match === null)
    throw badCursor(`"${text.slice(0, 40)}" is not of the form <attempt>-<seq>, such as 1-42`);
  return { attempt: Number(match[1]), seq: Number(match[2]) };
}

export const badCursor = (detail: string): Problem => new Problem('DJ_CURSOR_INVALID', detail);

/** The list goes from new to old; its cursor holds the ordinal of the last job shown. */
export const listCursor = (ordinal: number): string => Buffer.from(`o${ordinal}`).toString('base64url');

/** Throws Problem DJ_CURSOR_INVALID. */
export function parseListCursor(text: string): number {
  const match = /^o([1-9]\d{0,14})$/.exec(Buffer.from(text, 'base64url').toString('latin1'));
  if (match === null || listCursor(Number(match[1])) !== text)
    throw badCursor('this is not a cursor of the list');
  return Number(match[1]);
}
