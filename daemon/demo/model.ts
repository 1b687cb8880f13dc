// The model of the demo: the fake server with scripted answers. Runs outside every sandbox, behind the gateway.
import { contentChunk, type FakeOpenAI, startFakeOpenAI, toolCallChunk } from '../../worker/index.ts';

/** What the demo asks for, and what is then expected in the workspace. */
export const DEMO_PROMPT = 'set the version in package.json to 0.2.0';
export const SEEDED_FILE = '{\n  "name": "demo",\n  "version": "0.1.0"\n}\n';
export const WANTED_VERSION = '0.2.0';
const SEEDED = '"version": "0.1.0"';
const WANTED = `"version": "${WANTED_VERSION}"`;

/** Reads the file, changes the version (or makes the file, where there is none), says so: one step per tool result. */
export function startDemoModel(): Promise<FakeOpenAI> {
  return startFakeOpenAI(({ body }) => {
    const messages: { role: string; content: string }[] = body.messages;
    const turn = messages.slice(messages.findLastIndex(({ role }) => role === 'user'));
    const results = turn.filter(({ role }) => role === 'tool');
    if (results.length === 0) return { sse: [toolCallChunk('read_file', { path: 'package.json' })] };
    if (results.length === 1) {
      const found = String(results[0]?.content);
      if (found.includes(SEEDED)) {
        return {
          sse: [toolCallChunk('edit_file', { path: 'package.json', old_string: SEEDED, new_string: WANTED })],
        };
      }
      if (!found.includes(WANTED)) {
        const content = SEEDED_FILE.replace(SEEDED, WANTED);
        return { sse: [toolCallChunk('write_file', { path: 'package.json', content })] };
      }
    }
    return { sse: ['The version in package.json ', `is now ${WANTED_VERSION}.`].map(contentChunk) };
  });
}
