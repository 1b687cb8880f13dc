// The glob tool.
import type { Tool } from './types.ts';

export const globTool: Tool = {
  name: 'glob',
  description: 'glob',
  parameters: { type: 'object', properties: {}, additionalProperties: true },
  effect: 'pure',
  run: async () => ({ content: 'glob is not there yet', isError: true }),
};
