// Finds an agent that goes in circles: the same calls with the same results, again and again. Pure.
import type { AssistantEntry, Conversation, ToolCallRecord } from './conversation.ts';

/** Rounds in a row (or turns of a circle) after which the model is told. */
const TELL_AFTER = 5;
/** After which the run is ended, unless it asks for another number. High: waiting for something looks alike. */
export const DEFAULT_REPEATS = 40;
/** Circles of up to this many rounds are seen. */
const LONGEST_CIRCLE = 4;
const NOTE_START = '[the same calls gave the same results ';

interface Result {
  callId: string;
  content: string;
  isError: boolean;
}
interface Round {
  calls: readonly ToolCallRecord[];
  resultOf(callId: string): Pick<Result, 'content' | 'isError'> | undefined;
}

/** A result as the tool gave it. */
export function withoutNote(content: string): string {
  const at = content.lastIndexOf(NOTE_START);
  if (at === -1 || !content.endsWith(']')) return content;
  return content.slice(0, at).replace(/\n$/, '');
}

function isSame(a: Round, b: Round): boolean {
  if (a.calls.length !== b.calls.length) return false;
  return a.calls.every((call, index) => {
    const other = b.calls[index] as ToolCallRecord;
    const [result, otherResult] = [a.resultOf(call.id), b.resultOf(other.id)];
    return (
      call.name === other.name &&
      call.arguments === other.arguments &&
      result !== undefined &&
      otherResult !== undefined &&
      result.isError === otherResult.isError &&
      withoutNote(result.content).trimEnd() === withoutNote(otherResult.content).trimEnd()
    );
  });
}

/** How often the latest circle was gone through without a break; 1 when the latest round is a new one. */
function countTurns(rounds: readonly Round[], most: number): number {
  let turns = 1;
  for (let length = 1; length <= LONGEST_CIRCLE; length += 1) {
    let same = 0;
    for (let at = rounds.length - 1; at - length >= 0; at -= 1, same += 1) {
      if (same === length * most || !isSame(rounds[at] as Round, rounds[at - length] as Round)) break;
    }
    turns = Math.max(turns, Math.floor(same / length) + 1);
  }
  return turns;
}

const roundOf = (entry: AssistantEntry): Round => ({
  calls: entry.data.calls,
  resultOf: (callId) => entry.results.get(callId),
});

/** The latest rounds since the last user message, which is a new start. */
function latestRounds({ entries }: Conversation, most: number): AssistantEntry[] {
  const rounds: AssistantEntry[] = [];
  for (let at = entries.length - 1; at >= 0 && rounds.length <= LONGEST_CIRCLE * most; at -= 1) {
    const entry = entries[at];
    if (entry?.kind !== 'assistant') break;
    rounds.unshift(entry);
  }
  return rounds;
}

/** How often the model has made its latest calls in a row, all with the same results; counts to about `most`. */
export const countRepeats = (conversation: Conversation, most: number): number =>
  countTurns(latestRounds(conversation, most).map(roundOf), most);

/** What the model is told with the result that completes a repeated round; null when there is nothing to tell. */
export function repeatNote(
  conversation: Conversation,
  round: AssistantEntry,
  last: Result,
  most: number,
): string | null {
  const isComplete = round.data.calls.every((call) => call.id === last.callId || round.results.has(call.id));
  if (!isComplete) return null;
  const completed: Round = {
    calls: round.data.calls,
    resultOf: (callId) => (callId === last.callId ? last : round.results.get(callId)),
  };
  const earlier = latestRounds(conversation, most).filter((entry) => entry !== round);
  const turns = countTurns([...earlier.map(roundOf), completed], most);
  if (turns < TELL_AFTER) return null;
  return `${NOTE_START}${turns} times in a row: do something else; the run ends after ${most}]`;
}
