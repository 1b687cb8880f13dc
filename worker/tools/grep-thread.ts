// Matches lines in a thread of its own, so that a pattern that backtracks for ever can be ended and blocks nothing.
import { Worker } from 'node:worker_threads';
import { ToolError } from './define-tool.ts';

const BLOCK_LIMIT_MS = 5000;
const MEMORY_MEBIBYTES = 192;

export interface Hit {
  /** From 1. */
  line: number;
  /** The line's first 1,024 UTF-16 units. */
  text: string;
  /** Units of the whole line. */
  length: number;
}

export interface Matcher {
  /** The matching lines of a block, which is given away. @throws ToolError when it takes too long or fails. */
  search(
    block: Uint8Array<ArrayBuffer>,
    firstLine: number,
    maxHits: number,
  ): Promise<{ hits: Hit[]; lines: number }>;
  close(): Promise<void>;
}

// Plain JavaScript in a string: a thread needs its own program, and a bundle is one file that has no other beside it.
const PROGRAM = `
const { parentPort, workerData } = require('node:worker_threads');
const pattern = new RegExp(workerData.source, workerData.flags);
const search = ({ block, firstLine, maxHits }) => {
  const text = Buffer.from(block.buffer, block.byteOffset, block.byteLength).toString('utf8');
  const hits = [];
  let lines = 0;
  for (let at = 0; at < text.length; ) {
    const lineBreak = text.indexOf('\\n', at);
    const end = lineBreak === -1 ? text.length : lineBreak;
    const line = text.slice(at, text[end - 1] === '\\r' && end > at ? end - 1 : end);
    if (hits.length < maxHits && pattern.test(line)) hits.push({ line: firstLine + lines, text: line.slice(0, 1024), length: line.length });
    if (lineBreak !== -1) lines++;
    at = end + 1;
  }
  return { hits, lines };
};
parentPort.on('message', (message) => {
  try {
    parentPort.postMessage(search(message));
  } catch (error) {
    parentPort.postMessage({ failure: String(error && error.message) });
  }
});
`;

/** Starts a thread for one pattern. @throws ToolError when the pattern is not a regular expression. */
export function startMatcher(source: string, ignoreCase: boolean): Matcher {
  const flags = flagsFor(source) + (ignoreCase ? 'i' : '');
  const thread = new Worker(PROGRAM, {
    eval: true,
    execArgv: [],
    workerData: { source, flags },
    resourceLimits: { maxOldGenerationSizeMb: MEMORY_MEBIBYTES },
  });
  // The search in hand reports it; without one there is nothing to report.
  thread.on('error', () => {});
  return {
    search: (block, firstLine, maxHits) => ask(thread, { block, firstLine, maxHits }),
    close: async () => {
      await thread.terminate();
    },
  };
}

/** Unicode mode where the pattern allows it (\p{L} needs it), else the older, laxer syntax. */
function flagsFor(source: string): string {
  for (const flags of ['u', '']) {
    try {
      new RegExp(source, flags);
      return flags;
    } catch (error) {
      if (flags === '') {
        throw new ToolError(
          `the pattern is not valid: ${(error as Error).message}; set literal to find plain text`,
        );
      }
    }
  }
  return '';
}

type Answer = { hits: Hit[]; lines: number } | { failure: string };

function ask(
  thread: Worker,
  question: { block: Uint8Array<ArrayBuffer>; firstLine: number; maxHits: number },
): Promise<{ hits: Hit[]; lines: number }> {
  return new Promise((resolve, reject) => {
    const timer = setTimeout(() => {
      void thread.terminate();
      settle(
        new ToolError(
          `the pattern needs more than ${BLOCK_LIMIT_MS / 1000} s on one file; write a simpler one`,
        ),
      );
    }, BLOCK_LIMIT_MS);
    const settle = (outcome: Answer | Error) => {
      clearTimeout(timer);
      thread.off('message', settle);
      thread.off('error', onError);
      thread.off('exit', onExit);
      if (outcome instanceof Error) reject(outcome);
      else if ('failure' in outcome) reject(new ToolError(`the pattern cannot be run: ${outcome.failure}`));
      else resolve(outcome);
    };
    const onError = (error: Error) => settle(new ToolError(`the search failed: ${error.message}`));
    const onExit = () => settle(new ToolError('the search was ended'));
    thread.on('message', settle);
    thread.on('error', onError);
    thread.on('exit', onExit);
    thread.postMessage(question, [question.block.buffer]);
  });
}
