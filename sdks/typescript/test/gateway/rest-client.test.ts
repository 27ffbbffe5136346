// The client of REST against a real gateway: typed answers, refusals as errors, live updates.
import { afterAll, beforeAll, expect, expectTypeOf, test } from 'vitest';
import { NotFoundError } from '../../src/errors/not-found-error.js';
import { type LiveUpdate, RestClient, type ToolList } from '../../src/rest/index.js';
import { TestGateway } from '../support/gateway.js';

let gateway: TestGateway;
let rest: RestClient;
beforeAll(async () => {
  gateway = await TestGateway.start();
  rest = new RestClient({ baseUrl: gateway.url, token: gateway.token });
});
afterAll(() => gateway.close());

test('an answer has the type of its route', async () => {
  const listed = await rest.get('/api/tools');
  expectTypeOf(listed).toEqualTypeOf<ToolList>();
  expect(listed.tools.map(({ name }) => name)).toContain('read_file');
});

test('a refusal is an error with the sentence and the code of the gateway', async () => {
  const asked = rest.get('/api/sessions/{session_id}', { path: { session_id: 'a/b' } });
  await expect(asked).rejects.toThrow(NotFoundError);
  await expect(asked).rejects.toMatchObject({ status: 404, code: expect.stringMatching(/./) });
});

test('live updates begin with ready and name the list that changed; the signal ends them', async () => {
  const until = new AbortController();
  const seen: LiveUpdate[] = [];
  for await (const update of rest.live(until.signal)) {
    seen.push(update);
    if (update.topic === 'ready') await rest.post('/api/agents', { body: { name: 'Ann' } });
    if (update.topic === 'agents') until.abort();
  }
  expect(seen.map(({ topic }) => topic)).toEqual(['ready', 'agents']);
});

test('a file is uploaded as it is, and read again', async () => {
  const { id } = await rest.post('/api/artifacts', {
    query: { name: 'a.txt' },
    body: new Blob(['three eggs'], { type: 'text/plain' }),
  });
  const file = await rest.get('/api/artifacts/{artifact_id}', { path: { artifact_id: id } });
  expect(await file.text()).toBe('three eggs');
});
