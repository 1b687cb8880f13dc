// Models that answer what a recorded session has: in order, at once, by the clock of the record. Each request must be
// the recorded one, byte for byte, until a fault was put in.
import { RunError } from '../failure.ts';
import { RENDERING } from '../messages.ts';
import type { ModelSource } from '../model-source.ts';
import type { Delta } from '../models/answer.ts';
import { type Cooling, coolingKey } from '../models/cooling.ts';
import { ModelError } from '../models/errors.ts';
import type { ModelEntry } from '../protocol.ts';
import { type Fault, faultError, textAnswer } from './faults.ts';
import type { Outcome, RecordedRequest } from './recording.ts';

/** What the runs of one replay share: requests are counted over all of them, from 1. */
export interface ReplayState {
  requests: number;
  /** By the number of the request that they hit. */
  faults: Map<number, Fault>;
  /** True once a fault was put in: what follows may differ from the record. */
  changed: boolean;
  cooling: Map<string, number>;
}

/** The request in hand: what is left of its outcomes, and the fault that still is to hit it. */
interface Current {
  purpose: RecordedRequest['data']['purpose'] | null;
  outcomes: Outcome[];
  fault: Fault | undefined;
}

function say(onDelta: (delta: Delta) => void, text: string, reasoning: boolean): void {
  if (text !== '') onDelta({ text, reasoning });
}

const noMore = (what: string): RunError => new RunError('replay_end', `the record has no further ${what}`);

/**
 * Which models are left alone: as their failures in the record have it, and every model that the recorded run passed
 * over, for which other sessions may have been the cause.
 */
function recordedCooling(
  models: readonly ModelEntry[],
  state: ReplayState,
  nextModel: () => string | undefined,
): Cooling {
  const { cooling } = state;
  const position = (id: string | undefined): number => models.findIndex((entry) => entry.id === id);
  return {
    get(key) {
      const next = nextModel();
      if (state.changed || next === undefined) return cooling.get(key);
      const own = models.findIndex((entry) => coolingKey(entry) === key);
      if (own === position(next)) return undefined;
      return own < position(next) ? Number.POSITIVE_INFINITY : cooling.get(key);
    },
    has: (key) => cooling.has(key),
    set: (key, untilMs) => cooling.set(key, untilMs),
    delete: (key) => cooling.delete(key),
  };
}

/** The source of one run of a recording, whose models are asked in this order. */
export function createRecordedSource(
  requests: readonly RecordedRequest[],
  models: readonly ModelEntry[],
  state: ReplayState,
): ModelSource {
  const waiting = [...requests];
  let nowMs = waiting[0]?.atMs ?? 0;
  let current: Current = { purpose: null, outcomes: [], fault: undefined };
  /** Requests need not be the recorded ones: something was changed, or another version rendered them. */
  const isLoose = (): boolean => state.changed || (waiting[0]?.data.rendering ?? 1) !== RENDERING;
  const take = (purpose: Current['purpose']): RecordedRequest | undefined => {
    const at = isLoose() ? waiting.findIndex((one) => one.data.purpose === purpose) : 0;
    return at === -1 ? undefined : waiting.splice(at, 1)[0];
  };
  const fail = (fault: Exclude<Fault, { answer: string }>, onDelta: (delta: Delta) => void): never => {
    const [first] = current.outcomes;
    const isCut = 'kind' in fault && fault.kind === 'cut' && first !== undefined && 'answer' in first;
    if (isCut) say(onDelta, first.answer.text.slice(0, Math.ceil(first.answer.text.length / 2)), false);
    throw faultError(fault);
  };
  return {
    now: () => nowMs,
    cooling: recordedCooling(models, state, () => waiting[0]?.data.model),
    async sleep(_, signal) {
      if (signal.aborted) throw new ModelError('cancelled', 'cancelled');
    },
    check({ purpose, sha256 }) {
      // A fault made the run ask another model: what was recorded for the request is still to come.
      if (state.changed && current.purpose === purpose && current.outcomes.length > 0) return;
      const loose = isLoose();
      const next = take(purpose);
      current = { purpose, outcomes: [...(next?.outcomes ?? [])], fault: undefined };
      if (next === undefined) {
        if (loose && purpose === 'summary') return;
        throw noMore('request');
      }
      state.requests += 1;
      if (!loose && sha256 !== next.data.sha256) {
        const which = `request ${state.requests} differs from the recorded one (record ${next.seq})`;
        throw new RunError('replay_differs', which);
      }
      nowMs = next.atMs;
      current.fault = state.faults.get(state.requests);
    },
    async complete({ onDelta }) {
      const { fault, purpose } = current;
      current.fault = undefined;
      if (fault !== undefined) {
        state.changed = true;
        if (!('answer' in fault)) return fail(fault, onDelta);
        current.outcomes = [{ answer: textAnswer(fault.answer) }];
      }
      const outcome = current.outcomes.shift();
      // The run goes on without a summary, by the trim.
      if (outcome === undefined && purpose === 'summary')
        throw new ModelError('bad_request', 'the record has no further summary');
      if (outcome === undefined) throw noMore('answer');
      if ('failure' in outcome) throw outcome.failure;
      say(onDelta, outcome.answer.reasoning, true);
      say(onDelta, outcome.answer.text, false);
      return outcome.answer;
    },
  };
}
