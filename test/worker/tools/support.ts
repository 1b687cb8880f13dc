// A working directory of its own and calls of tools in it, for the tests of the tools.
import assert from 'node:assert/strict';
import { chmodSync, mkdtempSync, realpathSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import type { TestContext } from 'node:test';
import { endBackground, TOOLS, type ToolContext, type ToolOutcome } from '../../../worker/tools/index.ts';

export interface Workspace {
  dir: string;
  context: ToolContext;
  path(name: string): string;
  write(name: string, content: string | Buffer, mode?: number): string;
  call(tool: string, args: Record<string, unknown>, overrides?: Partial<ToolContext>): Promise<ToolOutcome>;
}

/** Makes a directory outside /tmp (which is always allowed) and removes it, and every process of its calls, after. */
export function workspace(t: TestContext): Workspace {
  const dir = realpathSync(mkdtempSync('/var/tmp/djinn-tools-'));
  const context: ToolContext = {
    cwd: dir,
    signal: new AbortController().signal,
    readOnly: false,
    background: [],
  };
  t.after(async () => {
    await endBackground(context.background ?? []);
    rmSync(dir, { recursive: true, force: true });
  });
  return {
    dir,
    context,
    path: (name) => join(dir, name),
    write(name, content, mode) {
      writeFileSync(join(dir, name), content);
      if (mode !== undefined) chmodSync(join(dir, name), mode);
      return join(dir, name);
    },
    async call(name, args, overrides = {}) {
      const tool = TOOLS.find((candidate) => candidate.name === name);
      assert.ok(tool, `there is a tool ${name}`);
      const outcome = await tool.run(args, { ...context, ...overrides });
      assert.equal(hasHalfSurrogate(outcome.content), false, 'a result is well-formed text');
      return outcome;
    },
  };
}

export const hasHalfSurrogate = (text: string): boolean => /\p{Surrogate}/u.test(text);
