import assert from 'node:assert/strict';
import { test } from 'node:test';
import {
  callSettings,
  cpuMax,
  memoryHigh,
  sliceSettings,
  toolsMemoryBytes,
  toolsPids,
} from '../../cgroups/limits.ts';
import { CONTROLLERS, LIMITS, MIB } from './fixture.ts';

test('a percentage of cores becomes a quota per 100 ms', () => {
  assert.equal(cpuMax(100), '100000 100000');
  assert.equal(cpuMax(250), '250000 100000');
  assert.equal(cpuMax(1), '1000 100000');
  assert.equal(cpuMax(33.3), '33300 100000');
  assert.equal(cpuMax(undefined), 'max 100000');
});

test('the tools meet their memory limit before the call does, and keep most of it', () => {
  for (const size of [32, 64, 128, 256, 512, 1024, 4096, 65536]) {
    const tools = toolsMemoryBytes(size * MIB);
    assert.ok(tools < memoryHigh(size * MIB), `${size} MiB: below memory.high of the call`);
    assert.ok(tools >= (size * MIB) / 2, `${size} MiB: at least half`);
    assert.equal(tools % 4096, 0);
  }
  assert.equal(toolsMemoryBytes(1024 * MIB), 896 * MIB);
});

test('a fork bomb in the tools leaves processes for the agent', () => {
  assert.deepEqual([1, 4, 64, 512, 4096].map(toolsPids), [1, 3, 48, 488, 4072]);
});

test('an absent total of a slice is lifted, not left as it was', () => {
  const settings = sliceSettings({ pids: 10 }, CONTROLLERS);
  assert.deepEqual(
    settings.map(({ file, value }) => `${file}=${value}`),
    ['memory.max=max', 'pids.max=10', 'cpu.max=max 100000'],
  );
});

test('only what a controller is there for is written', () => {
  const files = (controllers: string[]): string[] =>
    callSettings(LIMITS, controllers).map(({ file }) => file);
  assert.deepEqual(files([]), []);
  assert.deepEqual(files(['pids']), ['pids.max']);
  assert.deepEqual(files(['memory']), ['memory.max', 'memory.high', 'memory.swap.max']);
});
