// The edit_file tool.
import type { Tool } from './types.ts';

export const editFileTool: Tool = {
  name: 'edit_file',
  description: 'edit_file',
  parameters: { type: 'object', properties: {}, additionalProperties: true },
  effect: 'write',
  run: async () => ({ content: 'edit_file is not there yet', isError: true }),
};
