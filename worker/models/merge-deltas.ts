// Joins the pieces of text of one read: a fast model gives hundreds at once, and a line for each would be several times
// the text.
import type { Delta } from './answer.ts';

/** So many of one read are handed on as they came; of what follows each run of one kind becomes one delta. */
const AS_THEY_CAME = 16;

export interface MergedDeltas {
  take(delta: Delta): void;
  /** The read is over: what was joined is handed on. */
  flush(): void;
}

/** Hands on everything that it takes, in order, by the next `flush`. */
export function mergeDeltas(onDelta: (delta: Delta) => void): MergedDeltas {
  let taken = 0;
  let joined: Delta | null = null;

  function handOn(): void {
    if (joined !== null) onDelta(joined);
    joined = null;
  }

  return {
    take(delta) {
      taken += 1;
      if (taken <= AS_THEY_CAME) onDelta(delta);
      else if (joined !== null && joined.reasoning === delta.reasoning) joined.text += delta.text;
      else {
        handOn();
        joined = { ...delta };
      }
    },
    flush() {
      handOn();
      taken = 0;
    },
  };
}
