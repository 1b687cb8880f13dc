import assert from 'node:assert/strict';
import { test } from 'node:test';
import {
  calibrate,
  createCalibration,
  guessTokens,
  scaleFor,
} from '../../../worker/compaction/calibration.ts';

/** Guessed tokens per character (not per unit). */
function perCharacter(text: string): number {
  return guessTokens(text.length, Buffer.byteLength(text)) / [...text].length;
}
const near = (actual: number, expected: number): void =>
  assert.ok(Math.abs(actual - expected) < 0.02, `${actual}, not ${expected}`);

test('the first guess knows scripts: Chinese costs a token per character or so, English a fourth of that', () => {
  const repeat = (text: string): string => text.repeat(200);
  near(perCharacter(repeat('the quick brown fox ')), 0.3);
  near(perCharacter(repeat('请把版本号改成新的版本')), 0.8);
  near(perCharacter(repeat('バージョンを更新して')), 0.8);
  near(perCharacter(repeat('обновите версию')), 0.53);
  near(perCharacter(repeat('🌍🏷')), 1.1);
});

const figure = (model: string, guess: number, inputTokens: number) => ({ model, guess, inputTokens });

test('the figures of a model correct its guesses, and stand in for those of another one that has none', () => {
  const calibration = createCalibration();
  assert.equal(scaleFor(calibration, 'a'), 1);
  calibrate(calibration, figure('a', 1000, 800));
  near(scaleFor(calibration, 'a'), 0.8);
  near(scaleFor(calibration, 'b'), 0.8);
  calibrate(calibration, figure('b', 1000, 1500));
  near(scaleFor(calibration, 'a'), 0.8);
  near(scaleFor(calibration, 'c'), 1.5);
  calibrate(calibration, figure('a', 2000, 1800));
  near(scaleFor(calibration, 'a'), 0.9);
});

test('absurd figures change nothing', () => {
  const calibration = createCalibration();
  calibrate(calibration, figure('a', 1000, 900));
  for (const tokens of [0, -5, 3, 100_000, Number.NaN, Number.POSITIVE_INFINITY])
    calibrate(calibration, figure('a', 1000, tokens));
  near(scaleFor(calibration, 'a'), 0.9);
});

test('the count of a prompt that the server cut changes nothing, whether the request grows or shrinks', () => {
  const calibration = createCalibration();
  calibrate(calibration, figure('a', 3000, 3000));
  for (const guess of [5000, 6000, 8000, 5500, 4500]) calibrate(calibration, figure('a', guess, 3010));
  near(scaleFor(calibration, 'a'), 1);
  // Its cut falls between messages, so the count moves a little.
  calibrate(calibration, figure('a', 7000, 2900));
  near(scaleFor(calibration, 'a'), 1);
});

test('a count well above the one that looked cut shows that the server cuts nothing', () => {
  const calibration = createCalibration();
  calibrate(calibration, figure('a', 3000, 3000));
  calibrate(calibration, figure('a', 4000, 3010));
  calibrate(calibration, figure('a', 6000, 4800));
  near(scaleFor(calibration, 'a'), 0.8);
});
