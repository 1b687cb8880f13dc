// Finds a program that has said its last word and does not exit. Without it such a job would hold its place until its
// wall clock ends it.

/** Asks every `lingerMs`; calls `stop` when the answer was yes twice in a row. The returned timer ends it. */
export function watchLinger(lingerMs: number, hasFinished: () => boolean, stop: () => void): NodeJS.Timeout {
  let asked = 0;
  return setInterval(() => {
    asked = hasFinished() ? asked + 1 : 0;
    if (asked === 2) stop();
  }, lingerMs);
}
