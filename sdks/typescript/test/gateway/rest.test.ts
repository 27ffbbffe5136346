import { afterAll, beforeAll, expect, test } from 'vitest';
import { HandspanClient, Message, NotFoundError, ValidationError } from '../../src/index.js';
import { TestGateway } from '../support/gateway.js';

let gateway: TestGateway;
let client: HandspanClient;
beforeAll(async () => {
  gateway = await TestGateway.start();
  client = new HandspanClient({ baseUrl: gateway.url, token: gateway.token });
  client.registerTool({ node: 'page', name: 'blink', description: 'Blinks', handler: () => 1 });
});
afterAll(() => gateway.close());

test('a thread that never was is not found', async () => {
  await expect(client.threadDetails('nowhere')).rejects.toBeInstanceOf(NotFoundError);
  await expect(client.threadMessages('nowhere')).rejects.toBeInstanceOf(NotFoundError);
  await expect(client.singleMessage('nowhere', 'nothing')).rejects.toBeInstanceOf(NotFoundError);
});

test('a list that can not be is refused', async () => {
  await expect(client.threads({ limit: 0 })).rejects.toBeInstanceOf(ValidationError);
});

test('a file and a memory that never were are not found', async () => {
  await expect(client.getFile('nothing')).rejects.toBeInstanceOf(NotFoundError);
  await expect(client.getMemory('nothing')).rejects.toBeInstanceOf(NotFoundError);
});

test('everybody may ping', async () => {
  const stranger = new HandspanClient({ baseUrl: gateway.url });
  expect((await stranger.ping()).data).toBe('pong');
});

test('the graph, its state and its tools are told', async () => {
  const { nodes, edges } = (await client.graph()).data;
  expect(nodes.map((node) => node.name)).toEqual(expect.arrayContaining(['MAIN', 'TOOL']));
  expect(edges.length).toBeGreaterThan(0);
  expect((await client.graphStateSchema()).data).toMatchObject({ type: 'object' });
  await client.setup();
  const { nodes: places } = (await client.graphTools()).data;
  expect(places.flatMap((place) => place.tools.map((tool) => tool.name))).toContain('blink');
});

test('a thread is listed, read, written to and removed', async () => {
  const { meta } = await client.invoke('A thread about herons.');
  const id = meta.thread_id;
  expect((await client.threads({ limit: 5 })).data.threads.map((thread) => thread.thread_id)).toContain(id);
  expect((await client.threadDetails(id)).data.thread_data.thread.thread_id).toBe(id);
  await client.addThreadMessages(id, [Message.text_message('And about storks.')]);
  const { messages } = (await client.threadMessages(id)).data;
  const texts = messages.map((message) => message.text());
  expect(texts).toContain('A thread about herons.');
  expect(texts).toContain('And about storks.');
  const last = String(messages.at(-1)?.message_id);
  const { data: single } = await client.singleMessage(id, last);
  expect([single.message_id, single.text()]).toEqual([last, 'And about storks.']);
  expect((await client.deleteMessage(id, last)).data.success).toBe(true);
  const changed = await client.updateThreadState(id, {}, { context: [Message.text_message('Cranes too.')] });
  expect(changed.data.state.context.at(-1)?.text()).toBe('Cranes too.');
  const { state } = (await client.threadState(id)).data;
  expect(state.context.map((message) => message.text())).toContain('Cranes too.');
  await client.clearThreadState(id);
  expect((await client.threadState(id)).data.state.context).toEqual([]);
  expect((await client.deleteThread(id)).data.success).toBe(true);
  await expect(client.threadDetails(id)).rejects.toBeInstanceOf(NotFoundError);
});

test('nothing to stop, and nothing to fix, is a success', async () => {
  const { meta } = await client.invoke('Quiet.');
  expect((await client.stopGraph(meta.thread_id)).data).toMatchObject({ success: true, running: false });
  expect((await client.fixGraph(meta.thread_id)).data).toMatchObject({ success: true, removed_count: 0 });
});

test('a file is kept, described and given back', async () => {
  const file = new File(['some words'], 'note.txt', { type: 'text/plain' });
  const { file_id } = (await client.uploadFile(file)).data;
  expect(await (await client.getFile(file_id)).text()).toBe('some words');
  expect((await client.getFileInfo(file_id)).data).toMatchObject({ file_id });
  expect((await client.getFileAccessUrl(file_id)).data.url).toContain(file_id);
  expect((await client.getMultimodalConfig()).data).toBeTypeOf('object');
});

test('a memory is kept, found, changed and forgotten', async () => {
  const { memory_id } = (await client.storeMemory({ content: 'Herons stand on one leg.' })).data;
  expect((await client.searchMemory({ query: 'herons' })).data.results.map((one) => one.id)).toContain(memory_id);
  await client.updateMemory(memory_id, 'Storks do, too.');
  expect((await client.getMemory(memory_id)).data.memory.content).toBe('Storks do, too.');
  expect((await client.listMemories()).data.memories.length).toBeGreaterThan(0);
  expect((await client.deleteMemory(memory_id)).data.success).toBe(true);
  await client.storeMemory({ content: 'Forget me.' });
  await client.forgetMemories({ filters: {} });
  expect((await client.listMemories()).data.memories).toEqual([]);
});
