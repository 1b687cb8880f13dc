import assert from 'node:assert/strict';
import { test } from 'node:test';
import { selectTools, TOOLS } from '../../../worker/tools/index.ts';
import { TOOL_NAMES } from '../../../worker/tools/names.ts';
import { workspace } from './support.ts';

const names = (tools: readonly { name: string }[]) => tools.map((tool) => tool.name);

test('there are seven tools, under the names that the command line knows', () => {
  assert.equal(TOOLS.length, 7);
  assert.deepEqual(names(TOOLS), TOOL_NAMES);
});

test('sets of tools are narrowed by intersection', () => {
  assert.deepEqual(names(selectTools({ allow: ['bash', 'grep', 'nope'], deny: ['bash'] }, false)), ['grep']);
  assert.deepEqual(names(selectTools({ allow: [] }, false)), []);
  assert.equal(selectTools(undefined, false).length, 7);
});

test('a read-only run has only tools without side effects, and the others refuse', async (t) => {
  const { call, path } = workspace(t);
  assert.deepEqual(names(selectTools(undefined, true)), ['read_file', 'read_image', 'grep', 'glob']);
  assert.deepEqual(names(selectTools({ allow: ['bash', 'write_file'] }, true)), []);
  const refused = await call('bash', { command: `touch ${path('made')}` }, { readOnly: true });
  assert.equal(refused.isError, true);
  assert.equal((await call('glob', {})).content, '[no files match]');
});
