// What a request must be according to the log: the SHA-256 of its body, made from records alone, in a conversation of
// its own that nothing else can reach. Keeps a running hash, so that each further request costs only what is new.
import { createHash, type Hash } from 'node:crypto';
import { summaryMessages } from './compaction/summary.ts';
import { applyRecord, type Conversation, createConversation, type UserEntry } from './conversation.ts';
import {
  type BodyOptions,
  buildBody,
  type ChatMessage,
  entryMessages,
  messagesFor,
  openingMessages,
  ownReasoning,
  RENDERING,
} from './messages.ts';
import type { RecordData, SessionRecord, View } from './session/record.ts';

export type RequestData = Pick<
  RecordData['request'],
  'model' | 'maxTokens' | 'purpose' | 'rendering' | 'summary'
>;

/** `sha256` in hex; `bytes` is the length of the body. */
export interface BodyDigest {
  sha256: string;
  bytes: number;
}

export function digestText(text: string): BodyDigest {
  return { sha256: createHash('sha256').update(text).digest('hex'), bytes: Buffer.byteLength(text) };
}

/** The part of a body up to its last entry but one, hashed; valid as long as nothing before it changed. */
interface Prefix {
  hash: Hash;
  bytes: number;
  /** Entries that are in it. */
  entries: number;
  /** True once a message is in it. */
  begun: boolean;
  /** Decides how the reasoning in it was rendered. */
  own: ReturnType<typeof ownReasoning>;
  view: View;
  context: Conversation['context'];
  keptUser: UserEntry | null;
  amended: number;
}

const bodyOptions = ({ model, maxTokens }: RequestData): BodyOptions => ({
  id: model,
  ...(maxTokens === undefined ? {} : { outputLimit: maxTokens }),
});

/** The body around its messages. No string inside can hold the unescaped text that it is split at. */
function bodyFrame(request: RequestData, context: Conversation['context']): [string, string] {
  const empty = '"messages":[';
  const { text } = buildBody(bodyOptions(request), [], context);
  const at = text.indexOf(empty) + empty.length;
  return [text.slice(0, at), text.slice(at)];
}

function feed(prefix: Prefix, messages: readonly ChatMessage[]): void {
  for (const message of messagesFor(prefix.own, messages)) {
    const text = `${prefix.begun ? ',' : ''}${JSON.stringify(message)}`;
    prefix.begun = true;
    prefix.bytes += Buffer.byteLength(text);
    prefix.hash.update(text);
  }
}

/** The messages of the entries from this index on, per entry. */
function messagesFrom({ entries, view, lastUser }: Conversation, index: number): ChatMessage[][] {
  return entries.slice(index).map((entry) => entryMessages(entry, view, lastUser));
}

function beginPrefix(conversation: Conversation, head: string, own: Prefix['own']): Prefix {
  const { view, context, lastUser, amended } = conversation;
  const hash = createHash('sha256').update(head);
  const bytes = Buffer.byteLength(head);
  const prefix = { hash, bytes, entries: 0, begun: false, own, view, context, keptUser: lastUser, amended };
  feed(prefix, openingMessages(conversation, view));
  return prefix;
}

/** The last user message is kept when its round is left out, so what is hashed depends on which one it is. */
function isStale(prefix: Prefix, { view, context, lastUser, amended }: Conversation): boolean {
  const userMoved = prefix.keptUser !== lastUser && (prefix.keptUser?.seq ?? 0) < view.roundsBefore;
  return prefix.view !== view || prefix.context !== context || prefix.amended !== amended || userMoved;
}

export interface Ledger {
  /** Takes the next record of the log, as read from its line. */
  take(record: SessionRecord): void;
  /**
   * The digest of the body that the records so far give this request; null when its record does not hold what that
   * takes, because another version wrote it.
   */
  derive(request: RequestData): BodyDigest | null;
}

/** The first rendering sent all reasoning to every model. */
function ownOf({ model, rendering = 1 }: RequestData, messages: readonly ChatMessage[]): Prefix['own'] {
  return rendering === 1 ? new Set(['reasoning', 'reasoning_content']) : ownReasoning(model, messages);
}

function deriveTurn(
  conversation: Conversation,
  prefixes: Map<string, Prefix>,
  request: RequestData,
): BodyDigest {
  const [head, tail] = bodyFrame(request, conversation.context);
  const key = `${request.rendering ?? 1} ${head}`;
  let prefix = prefixes.get(key);
  let fresh = messagesFrom(conversation, prefix?.entries ?? 0);
  const writes = ownOf(request, fresh.flat());
  const isKnown = prefix !== undefined && [...writes].every((field) => prefix?.own.has(field));
  if (prefix === undefined || !isKnown || isStale(prefix, conversation)) {
    fresh = messagesFrom(conversation, 0);
    prefix = beginPrefix(conversation, head, ownOf(request, fresh.flat()));
    prefixes.set(key, prefix);
  }
  // The last entry may still get results: it is hashed anew each time.
  for (const messages of fresh.slice(0, -1)) feed(prefix, messages);
  prefix.entries += Math.max(0, fresh.length - 1);
  const whole = { ...prefix, hash: prefix.hash.copy() };
  feed(whole, fresh.at(-1) ?? []);
  whole.hash.update(tail);
  return { sha256: whole.hash.digest('hex'), bytes: whole.bytes + Buffer.byteLength(tail) };
}

export function createLedger(): Ledger {
  const conversation = createConversation();
  const prefixes = new Map<string, Prefix>();
  return {
    take(record) {
      applyRecord(conversation, record);
    },
    derive(request) {
      if ((request.rendering ?? 1) > RENDERING) return null;
      if (request.purpose === 'turn') return deriveTurn(conversation, prefixes, request);
      if (request.summary === undefined) return null;
      const options = bodyOptions(request);
      return digestText(buildBody(options, summaryMessages(conversation, request.summary, options)).text);
    },
  };
}
