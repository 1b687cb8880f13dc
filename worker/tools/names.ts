// The names of the tools, for checks that must not wait for the tools themselves to load.

export const TOOL_NAMES: readonly string[] = [
  'read_file',
  'write_file',
  'edit_file',
  'bash',
  'read_image',
  'grep',
  'glob',
];
