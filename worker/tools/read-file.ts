// The read_file tool.
import type { Tool } from './types.ts';

export const readFileTool: Tool = {
  name: 'read_file',
  description: 'read_file',
  parameters: { type: 'object', properties: {}, additionalProperties: true },
  effect: 'pure',
  run: async () => ({ content: 'read_file is not there yet', isError: true }),
};
