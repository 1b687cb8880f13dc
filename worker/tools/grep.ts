// The grep tool.
import type { Tool } from './types.ts';

export const grepTool: Tool = {
  name: 'grep',
  description: 'grep',
  parameters: { type: 'object', properties: {}, additionalProperties: true },
  effect: 'pure',
  run: async () => ({ content: 'grep is not there yet', isError: true }),
};
