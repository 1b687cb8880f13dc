// The request that asks a model to sum up what will be left out. Pure; its own input is bounded.
import type { AssistantEntry, Conversation, Entry, UserEntry } from '../conversation.ts';
import type { ChatMessage } from '../messages.ts';
import type { ModelEntry } from '../protocol.ts';
import { excerpt, wellFormed } from '../text.ts';
import { guessTokens, scaleFor } from './calibration.ts';

const INSTRUCTIONS =
  'Sum up the following part of a conversation between a user and an agent that works with tools, so that the ' +
  'agent can go on without it. Keep: what the user wants and every constraint, decisions and their reasons, names ' +
  'of files and what was changed in them, commands that matter and their outcome, errors met, and what is still to ' +
  'do. Leave out: pleasantries and outputs that no longer matter. Answer with the summary only.';
const PIECE_LENGTH = 2000;

/** A longer summary is none: it is not taken, and the log keeps no more of it. In UTF-16 units. */
export const MAX_SUMMARY_LENGTH = 12_000;

/** As much of a summary as the log keeps: enough to see that it is too long. */
export const keptSummary = (text: string): string => wellFormed(text.slice(0, MAX_SUMMARY_LENGTH + 1));

const userText = (entry: UserEntry): string => `USER: ${excerpt(entry.data.text, 4 * PIECE_LENGTH)}`;

function roundText(entry: AssistantEntry): string {
  const lines = entry.data.text === '' ? [] : [`AGENT: ${excerpt(entry.data.text, PIECE_LENGTH)}`];
  for (const call of entry.data.calls) {
    const result = entry.results.get(call.id);
    lines.push(`CALL ${call.name} ${excerpt(call.arguments, PIECE_LENGTH / 2)}`);
    if (result !== undefined)
      lines.push(`RESULT${result.isError ? ' (error)' : ''}: ${excerpt(result.content, PIECE_LENGTH)}`);
  }
  return lines.join('\n');
}

/** The part of the conversation before `beforeSeq` as plain text, the view's own summary first. */
function leavingText(conversation: Conversation, beforeSeq: number): string {
  const { view } = conversation;
  const pieces = view.summary === null ? [] : [`EARLIER SUMMARY: ${view.summary}`];
  const leaving = (entry: Entry): boolean => entry.seq >= view.roundsBefore && entry.seq < beforeSeq;
  for (const entry of conversation.entries.filter(leaving)) {
    pieces.push(entry.kind === 'user' ? userText(entry) : roundText(entry));
  }
  return pieces.join('\n\n');
}

/** Messages of the summary request for the entries before a `seq`, with at most about `maxTokens` of this model. */
export function summaryMessages(
  conversation: Conversation,
  { before, maxTokens }: { before: number; maxTokens: number },
  entry: Pick<ModelEntry, 'id'>,
): ChatMessage[] {
  let text = leavingText(conversation, before);
  const guess = guessTokens(text.length, Buffer.byteLength(text));
  const tokens = guess * scaleFor(conversation.calibration, entry.id);
  if (tokens > maxTokens) {
    // Both ends are kept: what was asked for stands at the front, where the work has come to at the back.
    const half = Math.floor((text.length * maxTokens) / tokens / 2);
    text = `${wellFormed(text.slice(0, half))}\n\n[…]\n\n${wellFormed(text.slice(-half))}`;
  }
  return [
    { role: 'system', content: INSTRUCTIONS },
    { role: 'user', content: text },
  ];
}
