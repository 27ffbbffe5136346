import { afterAll, beforeAll, expect, test } from 'vitest';
import { pair, readPairingLink } from '../../src/device/index.js';
import { TestGateway } from '../support/gateway.js';

let gateway: TestGateway;

beforeAll(async () => {
  gateway = await TestGateway.start();
});

afterAll(() => gateway.close());

async function newLink(): Promise<string> {
  const answer = await fetch(`${gateway.url}/api/pairing`, {
    method: 'POST',
    headers: { authorization: `Bearer ${gateway.token}`, 'content-type': 'application/json' },
    body: '{"scopes": ["chat", "device"]}',
  });
  return `${gateway.url}/device#code=${((await answer.json()) as { code: string }).code}`;
}

test('a pairing link becomes a token of the scope device, once', async () => {
  const link = await newLink();
  const paired = await pair(link, { label: 'kitchen' });
  expect(paired.url).toBe(gateway.url);
  const me = await fetch(`${gateway.url}/api/me`, { headers: { authorization: `Bearer ${paired.token}` } });
  expect(await me.json()).toMatchObject({ scopes: ['device'] });
  await expect(pair(link)).rejects.toThrow('wrong, used or too old');
});

test('only a pairing link is one', () => {
  expect(readPairingLink('https://10.0.0.2:42617/prefix/pair#code=1234-5678-9012')).toEqual({
    url: 'https://10.0.0.2:42617/prefix',
    code: '1234-5678-9012',
  });
  for (const wrong of ['http://10.0.0.2', 'http://10.0.0.2/device', 'ftp://x/device#code=1', 'http://x/other#code=1']) {
    expect(() => readPairingLink(wrong)).toThrow('is no pairing link');
  }
});
