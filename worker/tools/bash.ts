// The bash tool.
import type { Tool } from './types.ts';

export const bashTool: Tool = {
  name: 'bash',
  description: 'bash',
  parameters: { type: 'object', properties: {}, additionalProperties: true },
  effect: 'exec',
  run: async () => ({ content: 'bash is not there yet', isError: true }),
};
