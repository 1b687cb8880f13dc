// The write_file tool.
import type { Tool } from './types.ts';

export const writeFileTool: Tool = {
  name: 'write_file',
  description: 'write_file',
  parameters: { type: 'object', properties: {}, additionalProperties: true },
  effect: 'write',
  run: async () => ({ content: 'write_file is not there yet', isError: true }),
};
