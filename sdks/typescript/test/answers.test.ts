import { afterEach, beforeEach, expect, test, vi } from 'vitest';
import {
  AnswerError,
  AuthenticationError,
  ConnectionError,
  GraphError,
  HandspanClient,
  HandspanError,
  NotFoundError,
  PermissionError,
  RateLimitError,
  ServerError,
  TimeoutError,
  ValidationError,
} from '../src/index.js';
import { breaks, data, fails, says, silence, TestServer } from './support/server.js';

let server: TestServer;
let client: HandspanClient;
beforeEach(async () => {
  server = await TestServer.start();
  client = new HandspanClient({ baseUrl: `${server.url}/`, token: 'secret', headers: { 'X-Page': 'shop' } });
});
afterEach(() => server.close());

/** What a request throws when the server answers so. */
async function thrown(...answers: Parameters<TestServer['answers']>): Promise<HandspanError> {
  server.answers(...answers);
  return client.graph().then(
    () => expect.fail('nothing was thrown'),
    (error) => error,
  );
}

test.each([
  [400, 'BAD', ValidationError],
  [401, 'AUTHENTICATION_ERROR', AuthenticationError],
  [403, 'PERMISSION_ERROR', PermissionError],
  [404, 'RESOURCE_NOT_FOUND', NotFoundError],
  [405, 'METHOD_NOT_ALLOWED', HandspanError],
  [409, 'GRAPH_BUSY', GraphError],
  [413, 'REQUEST_TOO_LARGE', ValidationError],
  [422, 'GRAPH_UNKNOWN_CALL', GraphError],
  [500, 'GRAPH_ERROR', GraphError],
  [503, 'STORAGE_ERROR', ServerError],
  [504, 'GRAPH_TIMEOUT', GraphError],
])('status %i with %s is an error of its own class, with all that the gateway said', async (status, code, Kind) => {
  const detail = { loc: ['body', 'x'], msg: 'wrong', type: 'value_error' };
  const error = await thrown(fails(status, code, 'It is wrong: do it so.', [detail]));
  expect(error.constructor).toBe(Kind);
  expect(error.name).toBe(Kind.name);
  expect(error).toMatchObject({ status, code, message: 'It is wrong: do it so.', requestId: 'r-2', details: [detail] });
});

test('too many requests say how long to wait, if they do', async () => {
  const known = await thrown(says(429, { error: { code: 'RATE_LIMIT_EXCEEDED' } }, { 'retry-after': '7' }));
  expect(known).toBeInstanceOf(RateLimitError);
  expect(known).toMatchObject({ retryAfter: 7, status: 429 });
  expect(await thrown(says(429, '', { 'retry-after': 'soon' }))).toMatchObject({ retryAfter: undefined });
  expect(await thrown(says(429, ''))).toMatchObject({ retryAfter: undefined });
});

test.each([
  ['no metadata', { error: { code: 'X_1', message: 'Half.' } }, { code: 'X_1', message: 'Half.', details: [] }],
  ['no error', { metadata: { request_id: 'r-9' } }, { code: '', requestId: 'r-9' }],
  ['the error of REST, a text with its code', { error: 'Nothing here.', code: 'not_found' }, { code: 'not_found' }],
  ['a null', null, { code: '', requestId: '' }],
  ['a list', [1, 2], { code: '' }],
  ['details that are none', { error: { code: 'X', details: 'many' } }, { code: 'X', details: [] }],
  ['broken JSON', '{"error": {', { code: '' }],
  ['a page of a proxy', '<html><body>Bad Gateway</body></html>', { code: '' }],
  ['nothing', '', { code: '' }],
])('an error answer with %s is an error with its status', async (_, body, wanted) => {
  expect(await thrown(says(502, body as object))).toMatchObject({ name: 'ServerError', status: 502, ...wanted });
});

test('an error answer that is none of a gateway is quoted, with its address and what to look at', async () => {
  const error = await thrown(says(404, '<html>Not here</html>'));
  expect(error.message).toContain(`${server.url}/v1/graph answered with status 404`);
  expect(error.message).toMatch(/'<html>Not here<\/html>'.*`baseUrl`/);
  expect((await thrown(says(404, ''))).message).toMatch(/as a gateway does\. Is `baseUrl`/);
});

test.each(['127.0.0.1:42617', 'localhost:42617', 'ws://127.0.0.1:42617', undefined])(
  'the address %j is refused at once, with one that is right',
  (baseUrl) => {
    expect(() => new HandspanClient({ baseUrl: baseUrl as string })).toThrow(
      /write it like 'http:\/\/127\.0\.0\.1:42617'/,
    );
  },
);

test.each(['<html>Welcome to the router</html>', '', '[]', 'null', '{"success": true}', '{"data": '])(
  'a good status with %j is no answer of a gateway',
  async (body) => {
    const error = await thrown(says(200, body));
    expect(error).toBeInstanceOf(AnswerError);
    expect(error.message).toContain(`${server.url}/v1/graph`);
  },
);

test('a gateway that is not there is a ConnectionError that says where, and what to do', async () => {
  const nobody = new HandspanClient({ baseUrl: 'http://127.0.0.1:9' });
  const error = await nobody.invoke('hello').catch((error) => error);
  expect(error).toBeInstanceOf(ConnectionError);
  expect(error).toMatchObject({ status: 0, cause: expect.any(TypeError) });
  expect(error.message).toMatch(/http:\/\/127\.0\.0\.1:9\/v1\/graph\/invoke.*Does it run there\?$/);
  vi.stubGlobal('location', { origin: 'https://shop.example' });
  try {
    await expect(nobody.invoke('hello')).rejects.toThrow(/gateway\.origins.*https:\/\/shop\.example/);
  } finally {
    vi.unstubAllGlobals();
  }
});

test('a connection that breaks before the answer is a ConnectionError', async () => {
  expect(await thrown(breaks())).toBeInstanceOf(ConnectionError);
});

test('a gateway that is silent for too long is a TimeoutError', async () => {
  server.answers(silence);
  const hasty = new HandspanClient({ baseUrl: server.url, timeout: 30 });
  const error = await hasty.ping().catch((error) => error);
  expect(error).toBeInstanceOf(TimeoutError);
  expect(error).toMatchObject({ timeout: 30, status: 0 });
});

test('a time without end is no time that is over at once', async () => {
  server.answers(data('pong'));
  const patient = new HandspanClient({ baseUrl: server.url, timeout: Number.POSITIVE_INFINITY });
  expect((await patient.ping()).data).toBe('pong');
});

test('a body that stops in the middle of it is a TimeoutError too', async () => {
  server.answers((response) => response.writeHead(200).write('{"data"'));
  const hasty = new HandspanClient({ baseUrl: server.url, timeout: 50 });
  await expect(hasty.ping()).rejects.toBeInstanceOf(TimeoutError);
});

test('token, headers, query and bodies go where they belong', async () => {
  server.answers(data({ threads: [] }));
  expect((await client.threads({ search: 'a&b', limit: 3 })).data).toEqual({ threads: [] });
  await client.deleteThread('a/b');
  await client.ping();
  const [list, removed, ping] = server.received;
  expect(list).toMatchObject({ method: 'GET', path: '/v1/threads?search=a%26b&limit=3' });
  expect(list?.headers).toMatchObject({ authorization: 'Bearer secret', 'x-page': 'shop' });
  expect(list?.headers['content-type']).toBeUndefined();
  expect(removed).toMatchObject({ method: 'DELETE', path: '/v1/threads/a%2Fb', body: { config: {} } });
  expect(ping?.path).toBe('/ping');
});

test('without a token no authorization is sent; `authToken` is another name for it', async () => {
  server.answers(data('pong'));
  await new HandspanClient({ baseUrl: server.url }).ping();
  await new HandspanClient({ baseUrl: server.url, authToken: 'old' }).ping();
  expect(server.received.map((one) => one.headers.authorization)).toEqual([undefined, 'Bearer old']);
});

test('fetch is called with the credentials that were asked for, and a relative address where baseUrl is empty', async () => {
  const seen: [unknown, RequestInit | undefined][] = [];
  const fetch = async (url: unknown, request?: RequestInit) => {
    seen.push([url, request]);
    return new Response('{"data": "pong"}');
  };
  await new HandspanClient({ baseUrl: '', credentials: 'include', fetch: fetch as typeof globalThis.fetch }).ping();
  await new HandspanClient({ baseUrl: '', fetch: fetch as typeof globalThis.fetch }).ping();
  expect(seen.map(([url]) => url)).toEqual(['/ping', '/ping']);
  expect(seen.map(([, request]) => request?.credentials)).toEqual(['include', undefined]);
});

test('who debugs is told of every request, and of no token', async () => {
  server.answers(data('pong'));
  const told: string[] = [];
  await new HandspanClient({ baseUrl: server.url, token: 'secret', debug: (text) => told.push(text) }).ping();
  expect(told).toEqual([expect.stringMatching(/^handspan: GET \/ping 200 \d+ ms$/)]);
});

test('a file comes as it is', async () => {
  server.answers((response) => response.writeHead(200, { 'content-type': 'image/png' }).end('bytes'));
  const file = await client.getFile('f-1');
  expect([await file.text(), file.type]).toEqual(['bytes', 'image/png']);
});

test('a file is sent as a form', async () => {
  server.answers(data({ file_id: 'f-1' }));
  await client.uploadFile(new File(['words'], 'note.txt', { type: 'text/plain' }));
  expect(server.received[0]?.headers['content-type']).toMatch(/^multipart\/form-data; boundary=/);
  expect(server.received[0]?.body).toContain('name="file"; filename="note.txt"');
});

test('an error without a cause shows none', () => {
  expect(Object.hasOwn(new HandspanError('alone'), 'cause')).toBe(false);
  expect(new HandspanError('not alone', { cause: 7 }).cause).toBe(7);
});
