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
  latest: Figure | null;
}

export const createCalibration = (): Calibration => ({ scales: new Map(), latest: null });

/** A request that grew while its count stayed was cut by the server (Ollama drops the front and says nothing). */
function isCut(latest: Figure | null, figure: Figure): boolean {
  return (
    latest !== null &&
    latest.model === figure.model &&
    figure.guess > latest.guess * 1.05 &&
    figure.inputTokens <= latest.inputTokens * 1.01
  );
}

/** Takes one figure. Figures of prompts that were cut, and absurd ones, change nothing. */
export function calibrate(calibration: Calibration, figure: Figure): void {
  const cut = isCut(calibration.latest, figure);
  calibration.latest = figure;
  const scale = figure.inputTokens / figure.guess;
  if (cut || !(scale >= MIN_SCALE && scale <= MAX_SCALE)) return;
  calibration.scales.delete(figure.model);
  calibration.scales.set(figure.model, scale);
}

/** The model's own correction, else that of the model measured last, else none. */
export function scaleFor(calibration: Calibration, model: string): number {
  return calibration.scales.get(model) ?? [...calibration.scales.values()].at(-1) ?? 1;
}
