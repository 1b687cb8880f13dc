// What one run may spend: requests, tokens and time. Counts; the caller asks before it spends.
import { RunError } from './failure.ts';
import type { Answer } from './models/answer.ts';
import { ModelError } from './models/errors.ts';
import type { Budget } from './run-options.ts';

/** setTimeout fires at once for more. */
const MAX_WALL_MS = 2 ** 31 - 1;
/** For answers without a usage figure. */
const UNITS_PER_TOKEN = 3;

/** The limits, or a RunError `settings` that names the wrong one. */
export function checkBudget(budget: Budget): Budget {
  for (const [name, limit] of Object.entries({
    requests: budget.requests,
    tokens: budget.tokens,
    wallMs: budget.wallMs,
    repeats: budget.repeats,
  })) {
    const most = name === 'wallMs' ? MAX_WALL_MS : Number.MAX_SAFE_INTEGER;
    if (limit !== undefined && !(Number.isSafeInteger(limit) && limit >= 1 && limit <= most)) {
      throw new RunError('settings', `budget.${name} must be a whole number from 1 to ${most}`);
    }
  }
  return budget;
}

export interface Spending {
  /** Throws a RunError `budget` when requests or tokens are spent. */
  check(): void;
  /** Before each request: checks, and counts it. */
  takeRequest(): void;
  /** Counts what a taken request used. `inputTokens`: an estimate, for a provider that gives no figure. */
  account(answer: Promise<Answer>, inputTokens: number): Promise<Answer>;
}

/** Nothing spent yet. */
export function createSpending({ requests, tokens }: Budget): Spending {
  let taken = 0;
  let used = 0;
  const spending: Spending = {
    check() {
      if (requests !== undefined && taken >= requests)
        throw new RunError('budget', `the run has made the ${requests} requests of its budget`);
      if (tokens !== undefined && used >= tokens)
        throw new RunError('budget', `the run has used ${used} of the ${tokens} tokens of its budget`);
    },
    takeRequest() {
      spending.check();
      taken += 1;
    },
    async account(answer, inputTokens) {
      try {
        const { usage, text, reasoning, calls } = await answer;
        const written = [text, reasoning, ...calls.map((call) => call.arguments)].join('').length;
        used += usage?.totalTokens ?? inputTokens + Math.ceil(written / UNITS_PER_TOKEN);
      } catch (error) {
        if (!(error instanceof ModelError)) throw error;
        // A gateway that is away is asked many times, and no model was.
        if (error.kind === 'gateway' && !error.answered) taken -= 1;
        else if (error.answered) used += error.usage?.totalTokens ?? inputTokens;
        throw error;
      }
      return answer;
    },
  };
  return spending;
}
