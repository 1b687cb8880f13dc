// Guesses how many tokens a text has, and learns from the provider's figures how far off the guess is. Pure.

/** Tokens per UTF-16 unit of English text and code, with JSON's escapes. */
const PER_UNIT = 0.3;
/** Tokens per UTF-8 byte beyond one per unit: a Chinese character (2 more) comes to 0.8, a Cyrillic one to 0.55. */
const PER_EXTRA_BYTE = 0.25;

/** Outside this range a figure is not about this text (a fake model, a cache that is not counted). */
const MIN_SCALE = 0.3;
const MAX_SCALE = 4;

/** Tokens of a text before any figure, from its UTF-16 units and UTF-8 bytes; both are counted at native speed. */
export function guessTokens(units: number, bytes: number): number {
  return Math.ceil(units * PER_UNIT + (bytes - units) * PER_EXTRA_BYTE);
}

export interface Figure {
  model: string;
  /** What `guessTokens` said of the request. */
  guess: number;
  /** What the provider counted for the text of the request. */
  inputTokens: number;
}

export interface Calibration {
  /** Counted by guessed tokens, per model; the latest is last. Tokenizers differ by a third and more. */
  scales: Map<string, number>;
  /** The highest count of a prompt that a server cut, per model. */
  cutAt: Map<string, number>;
  latest: Figure | null;
}

export const createCalibration = (): Calibration => ({ scales: new Map(), cutAt: new Map(), latest: null });

/** Growth of a request from which on it must show in its count, and the share of it that must. */
const GROWTH = 0.05;
const SHOWN_GROWTH = 0.25;
/** A count this close to one of a prompt that was cut is of such a prompt too; one well above shows that none was. */
const NEAR_CUT = 0.9;
const ABOVE_CUT = 1.1;

/** A request that grew while its count hardly did was cut by the server: Ollama drops the front and says nothing. */
function isCut({ latest, cutAt }: Calibration, figure: Figure): boolean {
  const seenCut = cutAt.get(figure.model);
  if (seenCut !== undefined && figure.inputTokens > ABOVE_CUT * seenCut) cutAt.delete(figure.model);
  else if (seenCut !== undefined && figure.inputTokens >= NEAR_CUT * seenCut) return true;
  if (latest === null || latest.model !== figure.model) return false;
  const growth = figure.guess / latest.guess - 1;
  return growth > GROWTH && figure.inputTokens / latest.inputTokens - 1 < growth * SHOWN_GROWTH;
}

/** Takes one figure. Absurd ones, and those of prompts that were cut, change nothing. */
export function calibrate(calibration: Calibration, figure: Figure): void {
  const scale = figure.inputTokens / figure.guess;
  if (!(scale >= MIN_SCALE && scale <= MAX_SCALE)) return;
  const cut = isCut(calibration, figure);
  calibration.latest = figure;
  if (cut) {
    const { cutAt } = calibration;
    cutAt.set(figure.model, Math.max(figure.inputTokens, cutAt.get(figure.model) ?? 0));
    return;
  }
  calibration.scales.delete(figure.model);
  calibration.scales.set(figure.model, scale);
}

/** The model's own correction, else that of the model measured last, else none. */
export function scaleFor(calibration: Calibration, model: string): number {
  return calibration.scales.get(model) ?? [...calibration.scales.values()].at(-1) ?? 1;
}
