// The seven tools and their selection. Sets of tools are only ever narrowed.
import { bashTool } from './bash.ts';
import { editFileTool } from './edit-file.ts';
import { globTool } from './glob.ts';
import { grepTool } from './grep.ts';
import { readFileTool } from './read-file.ts';
import { readImageTool } from './read-image.ts';
import type { Tool } from './types.ts';
import { writeFileTool } from './write-file.ts';

export { endBackground } from './background.ts';
export { hashFile } from './file-hash.ts';
export type { LeftProcess, Tool, ToolContext, ToolOutcome, WritePlan } from './types.ts';

export const TOOLS: readonly Tool[] = [
  readFileTool,
  writeFileTool,
  editFileTool,
  bashTool,
  readImageTool,
  grepTool,
  globTool,
];

/**
 * The tools of a run: `allow` keeps, `deny` removes, `readOnly` keeps only tools without side effects (bash can
 * write anywhere that its sandbox lets it, so it goes too). Names that no tool has select nothing.
 */
export function selectTools(
  filter: { allow?: string[]; deny?: string[] } | undefined,
  readOnly: boolean,
  tools: readonly Tool[] = TOOLS,
): Tool[] {
  const allow = filter?.allow;
  const deny = filter?.deny ?? [];
  return tools.filter(
    (tool) =>
      (allow === undefined || allow.includes(tool.name)) &&
      !deny.includes(tool.name) &&
      !(readOnly && tool.effect !== 'pure'),
  );
}
