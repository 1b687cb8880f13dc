// Cursors of event lines: `"<attempt>-<seq>"`. Pure.
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
