// The model of the demo: the fake server with three scripted answers. Runs outside every sandbox, behind the gateway.
import { contentChunk, type FakeOpenAI, startFakeOpenAI, toolCallChunk } from '../../worker/index.ts';

/** What the demo asks for, and what is then expected in the workspace. */
export const DEMO_PROMPT = 'set the version in package.json to 0.2.0';
export const SEEDED_FILE = '{\n  "name": "demo",\n  "version": "0.1.0"\n}\n';
export const WANTED_VERSION = '0.2.0';

/** Reads the file, edits the version, says so: one answer per tool result that the request already carries. */
export function startDemoModel(): Promise<FakeOpenAI> {
  return startFakeOpenAI(({ body }) => {
    const messages: { role: string }[] = body.messages;
    const turn = messages.slice(messages.findLastIndex(({ role }) => role === 'user'));
    const results = turn.filter(({ role }) => role === 'tool').length;
    if (results === 0) return { sse: [toolCallChunk('read_file', { path: 'package.json' })] };
    if (results === 1) {
      const change = { old_string: '"version": "0.1.0"', new_string: `"version": "${WANTED_VERSION}"` };
      return { sse: [toolCallChunk('edit_file', { path: 'package.json', ...change })] };
    }
    return { sse: ['The version in package.json ', `is now ${WANTED_VERSION}.`].map(contentChunk) };
  });
}
