// Reads stdin when, and only when, the command line asked for it.

/** A job line may carry images; more than this is refused. */
const MAX_INPUT_BYTES = 64 * 1024 * 1024;

/**
 * Reads up to the first LF (or the end), or to the end with `toEnd`. A line does not wait for the end of input: a
 * supervisor may keep the pipe open. Gives the text without that LF; rejects when stdin fails or brings too much.
 */
export function readStdin(toEnd: boolean): Promise<string> {
  return new Promise((resolve, reject) => {
    const parts: Buffer[] = [];
    let total = 0;
    const { stdin } = process;
    const finish = (): void => {
      stdin.removeAllListeners();
      stdin.on('error', () => {}); // What happens to the pipe after the job was read does not matter.
      stdin.destroy();
      resolve(Buffer.concat(parts).toString('utf8'));
    };
    stdin.on('data', (part: Buffer) => {
      const end = toEnd ? -1 : part.indexOf(10);
      parts.push(end === -1 ? part : part.subarray(0, end));
      total += part.length;
      if (end !== -1) finish();
      else if (total > MAX_INPUT_BYTES) {
        stdin.destroy();
        reject(new Error(`more than ${MAX_INPUT_BYTES} bytes on stdin`));
      }
    });
    stdin.on('end', finish);
    stdin.on('error', reject);
  });
}
