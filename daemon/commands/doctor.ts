// `djinnd doctor`.
import { type CommandContext, CommandError } from './command.ts';

export const help = `Usage: djinnd doctor
`;

export async function run(_args: string[], _context: CommandContext): Promise<number> {
  throw new CommandError('doctor is not there yet');
}
