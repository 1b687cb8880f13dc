// Which tools a run has: the built-in ones, those of the embedding program, narrowed by allow, deny and read-only.
import { RunError } from './failure.ts';
import type { RunOptions, ToolFilter } from './run-options.ts';
import type { Tool } from './tools/types.ts';

const NAME = /^[A-Za-z0-9_-]{1,64}$/;
const EFFECTS: readonly unknown[] = ['pure', 'write', 'exec'];

/** A tool of plain JavaScript may lack anything; one without a known effect could be run twice. */
function checkTools(tools: readonly Tool[]): void {
  const names = new Set<string>();
  for (const tool of tools) {
    const { name, description, parameters, effect, run } = (tool ?? {}) as Partial<Tool>;
    const shown = JSON.stringify(name) ?? 'without a name';
    const wrong = (what: string): never => {
      throw new RunError('settings', `the tool ${shown}: ${what}`);
    };
    if (typeof name !== 'string' || !NAME.test(name)) wrong('its name must be 1 to 64 of A-Z a-z 0-9 _ -');
    if (names.has(name as string)) wrong('there are two of this name');
    names.add(name as string);
    if (typeof description !== 'string') wrong('description must be a string');
    if (typeof parameters !== 'object' || parameters === null) wrong('parameters must be a JSON schema');
    if (!EFFECTS.includes(effect)) wrong('effect must be pure, write or exec');
    if (typeof run !== 'function') wrong('run must be a function');
  }
}

/** The tools that are shown and run. Throws a RunError `settings` for a tool that cannot be used. */
export async function chooseTools({ tools, readOnly = false }: RunOptions): Promise<readonly Tool[]> {
  const isList = Array.isArray(tools);
  const filter: ToolFilter = isList || tools === undefined ? {} : (tools as ToolFilter);
  const own: readonly Tool[] = isList ? (tools as readonly Tool[]) : (filter.add ?? []);
  const { selectTools, TOOLS } = await import('./tools/index.ts');
  const all = [...(isList ? [] : TOOLS), ...own];
  checkTools(all);
  return selectTools(filter, readOnly, all);
}
