import { expect, test } from 'vitest';
import {
  ErrorBlock,
  ImageBlock,
  Message,
  media,
  RemoteToolCallBlock,
  TextBlock,
  ToolResultBlock,
} from '../src/index.js';

test('a message of an answer without a content is one with none', () => {
  expect(Message.read({ role: 'assistant' })).toMatchObject({ role: 'assistant', content: [], delta: false });
});

test('blocks of an answer are of their classes, with everything that came', () => {
  const call = { type: 'remote_tool_call', id: 'c', name: 'n', args: { a: 1 }, tool_type: 'remote' };
  const json = JSON.parse(
    JSON.stringify({ role: 'tool', content: [call, { type: 'text', text: 'a', annotations: [1] }] }),
  );
  const { content } = Message.read(json);
  expect(content[0]).toBeInstanceOf(RemoteToolCallBlock);
  expect(content[1]).toBeInstanceOf(TextBlock);
  expect(JSON.parse(JSON.stringify(content))).toEqual(json.content);
});

test('a result says by itself whether it failed', () => {
  expect({ ...new ToolResultBlock('c') }).toEqual({
    type: 'tool_result',
    call_id: 'c',
    output: null,
    is_error: false,
    status: 'completed',
  });
  expect(new ToolResultBlock('c', 'no', true).status).toBe('failed');
});

test('words are a message of a person unless a role is given', () => {
  expect(Message.text_message('hello')).toMatchObject({ role: 'user', content: [{ type: 'text', text: 'hello' }] });
  expect(Message.text_message('hello', 'assistant').role).toBe('assistant');
});

test('the words of a message are those of its text blocks', () => {
  const mixed = new Message('assistant', [new TextBlock('a'), new ErrorBlock('bad'), new TextBlock('b')]);
  expect(mixed.text()).toBe('ab');
});

test('a picture is sent with its bytes, or by its address', async () => {
  const photo = new File(['p'], 'me.jpg', { type: 'image/jpeg' });
  const taken = await Message.image_message(photo, 'Who is this?');
  expect(taken.content).toEqual([
    new TextBlock('Who is this?'),
    new ImageBlock({ kind: 'data', data_base64: 'cA==', mime_type: 'image/jpeg', filename: 'me.jpg' }),
  ]);
  const linked = await Message.image_message({ kind: 'url', url: 'https://example.com/a.png' });
  expect(linked.content).toEqual([new ImageBlock({ kind: 'url', url: 'https://example.com/a.png' })]);
  expect(await media(new Blob(['x']))).toEqual({
    kind: 'data',
    data_base64: 'eA==',
    mime_type: 'application/octet-stream',
  });
});
