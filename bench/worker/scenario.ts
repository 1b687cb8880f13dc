// What a measured run consists of: so many tool rounds, then a text of so many deltas. Shared with the fake servers.

export interface Scenario {
  name: string;
  /** Command line of each tool round. */
  command: string;
  rounds: number;
  deltas: number;
}

export const DELTA = 'word ';
export const FLOOD_BYTES = 200_000_000;

export const SCENARIOS: Scenario[] = [
  { name: 'hello', command: '', rounds: 0, deltas: 1 },
  { name: '20,000 deltas', command: '', rounds: 0, deltas: 20_000 },
  { name: '200,000 deltas', command: '', rounds: 0, deltas: 200_000 },
  { name: '200 MB tool output', command: `yes | head -c ${FLOOD_BYTES}`, rounds: 1, deltas: 1 },
  { name: '30 tool rounds', command: 'true', rounds: 30, deltas: 1 },
];
