// The one error that refuses a request: its code is part of the wire contract, its message is for people.
import type { WireErrorCode } from './wire.ts';

export class Refusal extends Error {
  readonly code: WireErrorCode;

  constructor(code: WireErrorCode, message: string) {
    super(message);
    this.name = 'Refusal';
    this.code = code;
  }
}
