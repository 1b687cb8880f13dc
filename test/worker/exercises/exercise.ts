// What an exercise is: files with something missing or wrong, tests that say so, and the calls of a scripted model.

/** One call of the model: the tool and its arguments. */
export type Step = readonly [tool: string, args: Record<string, unknown>];

export interface Exercise {
  prompt: string;
  /** What happens on the way: the worker is killed, the server says 429, or the conversation gets too long. */
  fault: 'kill' | 'rate_limit' | 'compaction';
  /** Shell command that exits 0 when the exercise is solved. */
  tests: string;
  /** Files of the workspace at the start. Those that begin with `test` must be the same at the end. */
  files: Record<string, string>;
  /** Among them: a test run that fails, an edit that is refused, and last a test run that passes. */
  steps: readonly Step[];
}

export const read = (path: string, more: Record<string, unknown> = {}): Step => [
  'read_file',
  { path, ...more },
];
export const write = (path: string, content: string): Step => ['write_file', { path, content }];
export const edit = (path: string, old_string: string, new_string: string): Step => [
  'edit_file',
  { path, old_string, new_string },
];
/** Several replacements in one call: `[old, new]` each. */
export const edits = (path: string, ...pairs: [old: string, next: string][]): Step => [
  'edit_file',
  { path, edits: pairs.map(([old_string, new_string]) => ({ old_string, new_string })) },
];
export const bash = (command: string): Step => ['bash', { command }];
export const grep = (pattern: string): Step => ['grep', { pattern }];
export const glob = (pattern: string): Step => ['glob', { pattern }];
export const JS = 'node test.mjs';
// No bytecode: it is judged by whole seconds and the size, and an edit may change neither.
export const PY = 'python3 -B -m unittest -q test_it';
