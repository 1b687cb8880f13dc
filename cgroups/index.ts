// The public face of the cgroup v2 library: probe, make, limit, watch, kill and remove the cgroups of calls.
export { type CallGroup, createCall } from './create.ts';
export { LimitError, TreeError } from './errors.ts';
export { readEvidence, readUsage } from './evidence.ts';
export { expectJoin } from './expect-join.ts';
export { freezeCall, thawCall } from './freeze.ts';
export { killCall } from './kill.ts';
export { type CallState, onEvents, readState, waitEmpty } from './observe.ts';
export { allNone, type ProbeOptions, probe } from './probe.ts';
export { removeCall } from './remove.ts';
export { createSlice } from './slice.ts';
export { sweepTree } from './sweep.ts';
export { closeTree, openTree, type Tree } from './tree.ts';
export type * from './types.ts';
