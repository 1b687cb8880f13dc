// Schemas of the routes that say how the daemon is.
import { Type } from 'typebox';
import { Nullable } from './common.ts';

export const Health = Type.Object({ status: Type.Literal('ok') });

const readiness = {
  ready: Type.Boolean(),
  reasons: Type.Array(Type.String(), { description: 'What is missing; empty when ready.' }),
  enforcement: Nullable(
    Type.Record(Type.String(), Type.Unknown(), {
      description: 'What this machine enforces, control by control; null while the spawner is away.',
    }),
  ),
};
export const Readiness = Type.Object(readiness);
