import { expect, test } from 'vitest';
import { toolError } from '../../src/device/frames.js';
import { CallMemory } from '../../src/device/memory.js';

test.each(['', '{', 'null', '[]', '{"seen":1}', '{"seen":[{"id":"c1","stage":"answered","answer":"{"}]}'])(
  'what an earlier life did not write (%j) is as good as nothing',
  (text) => {
    const memory = new CallMemory(text);
    expect(memory.resumeToken).toBe('');
    expect(memory.unacknowledged()).toEqual([]);
  },
);

test('everything is there in the next life', () => {
  const memory = new CallMemory(null);
  memory.resumeToken = 't1';
  memory.start('c1');
  memory.answer(toolError('c2', 'broken', 'timeout'));
  memory.close('c3');
  const next = new CallMemory(memory.encode());
  expect(next.resumeToken).toBe('t1');
  expect(['c1', 'c2', 'c3', 'c4'].map((id) => next.stage(id))).toEqual(['started', 'answered', 'over', undefined]);
  expect(next.unacknowledged()).toEqual([toolError('c2', 'broken', 'timeout')]);
});

test('calls of more than an hour ago are forgotten, and so is what is beyond a thousand', () => {
  let now = 1_700_000_000;
  const memory = new CallMemory(null, () => now);
  memory.start('old');
  now += 3601;
  for (let number = 0; number < 1001; number++) memory.start(`c${number}`);
  expect(memory.stage('old')).toBeUndefined();
  expect(memory.stage('c0')).toBeUndefined();
  expect(memory.stage('c1')).toBe('started');
  now += 3601;
  expect(new CallMemory(memory.encode(), () => now).stage('c1000')).toBeUndefined();
});

test('a file of the Python SDK can be read', () => {
  const answer = JSON.stringify({ type: 'tool_result', id: 'c1', output: 'done' });
  const seen = [{ id: 'c1', at: Date.now() / 1000, stage: 'answered', answer }];
  const memory = new CallMemory(JSON.stringify({ v: 1, resume_token: 't', seen }));
  expect(memory.unacknowledged()).toEqual([{ type: 'tool_result', id: 'c1', output: 'done' }]);
});
