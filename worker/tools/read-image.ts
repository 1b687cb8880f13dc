// The read_image tool.
import type { Tool } from './types.ts';

export const readImageTool: Tool = {
  name: 'read_image',
  description: 'read_image',
  parameters: { type: 'object', properties: {}, additionalProperties: true },
  effect: 'pure',
  run: async () => ({ content: 'read_image is not there yet', isError: true }),
};
