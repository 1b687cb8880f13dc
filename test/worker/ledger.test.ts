import assert from 'node:assert/strict';
import { test } from 'node:test';
import fc from 'fast-check';
import { applyRecord, createConversation } from '../../worker/conversation.ts';
import { createLedger, digestText } from '../../worker/ledger.ts';
import { buildBody, RENDERING, renderMessages } from '../../worker/messages.ts';
import type { RecordType, SessionRecord } from '../../worker/session/record.ts';

type Written = [RecordType, unknown];

const model = fc.constantFrom('a', 'b');
const id = fc.constantFrom('c1', 'c2', 'c3');
const seq = fc.nat({ max: 45 });
const text = fc.constantFrom('', 'x', '北🌍 "quoted" \u2028', 'y'.repeat(400));

/** Records as runs write them, and as damage may leave them: in any order, with calls and results that do not match. */
const written: fc.Arbitrary<Written> = fc.oneof(
  { weight: 2, arbitrary: text.map((said): Written => ['user', { text: said }]) },
  {
    weight: 4,
    arbitrary: fc
      .record({
        model,
        text,
        reasoning: text,
        reasoningField: fc.constantFrom(null, 'reasoning', 'reasoning_content'),
        calls: fc
          .uniqueArray(id, { maxLength: 3 })
          .map((ids) => ids.map((one) => ({ id: one, name: 'bash', arguments: '{}' }))),
      })
      .map(
        (data): Written => [
          'assistant',
          { ...data, finish: null, usage: null, requestLength: 1, requestImages: 0 },
        ],
      ),
  },
  {
    weight: 5,
    arbitrary: fc
      .record({ callId: id, content: text, isImage: fc.boolean() })
      .map(({ callId, content, isImage }): Written => {
        const image = isImage ? { image: { mediaType: 'image/png', data: 'AAAA' } } : {};
        return ['tool_result', { callId, name: 'bash', content, isError: false, ...image }];
      }),
  },
  {
    weight: 1,
    arbitrary: fc
      .record({
        roundsBefore: seq,
        resultsBefore: seq,
        reasoningBefore: seq,
        summary: fc.constantFrom(null, 'so far'),
      })
      .map((view): Written => ['compact', { method: 'trim', from: 2, to: 1, view }]),
  },
  { weight: 1, arbitrary: text.map((systemPrompt): Written => ['context', { systemPrompt, tools: [] }]) },
);

test('the running digest of a request is the one made from scratch, whatever came before and whoever is asked', () => {
  const steps = fc.array(fc.tuple(written, fc.option(fc.tuple(model, fc.constantFrom(undefined, 100)))), {
    maxLength: 40,
  });
  fc.assert(
    fc.property(steps, (all) => {
      const ledger = createLedger();
      const conversation = createConversation();
      for (const [index, [[type, data], asked]] of all.entries()) {
        const record = { v: 1, seq: index + 1, ts: '', type, data } as SessionRecord;
        applyRecord(conversation, record);
        ledger.take(record);
        if (asked === null) continue;
        const [name, maxTokens] = asked;
        const limit = maxTokens === undefined ? {} : { maxTokens };
        const derived = ledger.derive({ model: name, purpose: 'turn', rendering: RENDERING, ...limit });
        const options = { id: name, ...(maxTokens === undefined ? {} : { outputLimit: maxTokens }) };
        const body = buildBody(options, renderMessages(conversation), conversation.context).text;
        assert.deepEqual(derived, digestText(body), `after record ${index + 1}`);
      }
    }),
    { numRuns: 1500 },
  );
});
