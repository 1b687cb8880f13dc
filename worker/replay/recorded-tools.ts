// Tools that give the results of a recorded session instead of doing anything.
import { withoutNote } from '../repeats.ts';
import type { Tool, ToolOutcome } from '../tools/types.ts';
import type { Recording } from './recording.ts';

const NONE: ToolOutcome = { content: 'the record has no result of this call', isError: true };

/** The arguments with their keys in order: how they were written does not matter. */
function canonical(value: unknown): string {
  return JSON.stringify(value, (_, inner: unknown) =>
    typeof inner === 'object' && inner !== null && !Array.isArray(inner)
      ? Object.fromEntries(Object.entries(inner).sort(([a], [b]) => (a < b ? -1 : 1)))
      : inner,
  );
}

function canonicalText(text: string): string | null {
  try {
    return canonical(text.trim() === '' ? {} : JSON.parse(text));
  } catch {
    return null;
  }
}

/** One tool per recorded definition; the first result not yet given for the same arguments, each once. */
export function recordedTools({ runs, results, effects }: Recording): Tool[] {
  const waiting = results.map(({ name, args, result }) => ({ name, args: canonicalText(args), result }));
  const take = (name: string, args: Record<string, unknown>): ToolOutcome => {
    const wanted = canonical(args);
    const at = waiting.findIndex((one) => one.name === name && one.args === wanted);
    const [found] = at === -1 ? [] : waiting.splice(at, 1);
    if (found === undefined) return NONE;
    const { content, isError, image } = found.result;
    // The loop adds the note about repeated calls itself.
    return { content: withoutNote(content), isError, ...(image === undefined ? {} : { image }) };
  };
  const definitions = runs.find((run) => run.context !== null)?.context?.tools ?? [];
  return definitions.map((definition) => ({
    ...definition,
    effect: effects.get(definition.name) ?? 'pure',
    run: async (args) => take(definition.name, args),
  }));
}
