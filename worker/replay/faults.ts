// Faults that can be put into a recorded session when it is run again. Pure.
import type { Answer } from '../models/answer.ts';
import { classifyResponse, ModelError } from '../models/errors.ts';

/**
 * `answer` stands in the place of the recorded answer; every other fault comes before it, as the failure of a first
 * try that the run has to deal with.
 */
export type Fault = { answer: string } | { status: number } | { kind: 'cut' | 'reset' | 'stall' | 'empty' };

/** What the first try fails with. `cut`: half of the answer's text had come. */
export function faultError(fault: Exclude<Fault, { answer: string }>): ModelError {
  if ('status' in fault) {
    const body = JSON.stringify({ error: { message: 'a fault put into the replay' } });
    return classifyResponse(fault.status, body, undefined);
  }
  switch (fault.kind) {
    case 'cut':
      return new ModelError('early_end', 'a cut put into the replay', { answered: true });
    case 'reset':
      return new ModelError('network', 'a reset put into the replay');
    case 'stall':
      return new ModelError('stall', 'a stall put into the replay', { answered: true });
    case 'empty':
      return new ModelError('empty', 'an empty answer put into the replay', { answered: true });
  }
}

export const textAnswer = (text: string): Answer => ({
  text,
  reasoning: '',
  reasoningField: null,
  calls: [],
  finish: 'stop',
  usage: null,
});

/** Reads `429`, `cut`, `reset`, `stall` or `empty`; null for anything else. */
export function parseFault(text: string): Fault | null {
  if (/^[45]\d\d$/.test(text)) return { status: Number(text) };
  return text === 'cut' || text === 'reset' || text === 'stall' || text === 'empty' ? { kind: text } : null;
}
