// Lets the calls of this process change one file one after the other, so that none is lost.
const tails = new Map<string, Promise<unknown>>();

/** Runs `body` when every earlier body of the same key has ended. */
export async function withFileLock<T>(key: string, body: () => Promise<T>): Promise<T> {
  const turn = (tails.get(key) ?? Promise.resolve()).then(body, body);
  const tail = turn.catch(() => {}); // The failure belongs to the caller of this turn alone.
  tails.set(key, tail);
  try {
    return await turn;
  } finally {
    if (tails.get(key) === tail) tails.delete(key);
  }
}
