// `djinnd demo`.
import { type CommandContext, CommandError } from './command.ts';

export const help = `Usage: djinnd demo
`;

export async function run(_args: string[], _context: CommandContext): Promise<number> {
  throw new CommandError('demo is not there yet');
}
