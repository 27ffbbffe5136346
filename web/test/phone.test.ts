// The phone's page in browsers that are not as one expects. A gateway of its own: one lets ten devices in a minute.
import { expect, test } from 'vitest';
import { checkAccess, PHONE, PLAIN_HOST, photograph, say, turn, World } from './support/world.ts';

const world = new World('--set', `gateway.hosts=["${PLAIN_HOST}"]`);

async function pairingCode(): Promise<string> {
  return (await world.api<{ code: string }>('POST', '/api/pairing', { scopes: ['device'] })).code;
}

test('a call that ends while the browser is asked for a permission leaves no question', async () => {
  const phone = await (await world.context({ viewport: PHONE, permissions: ['camera'] })).newPage();
  await phone.goto(`${world.gateway.url}/device#code=${await pairingCode()}`);
  await phone.getByText('Connected', { exact: true }).waitFor();
  await phone.evaluate(() => {
    const asked = new Promise((resolve) => Object.assign(globalThis, { answer: () => resolve({ state: 'granted' }) }));
    Object.assign(globalThis, { count: 0 });
    navigator.permissions.query = (() => {
      Object.assign(globalThis, { count: 1 });
      return asked;
    }) as typeof navigator.permissions.query;
  });
  const chat = await world.open();
  await say(chat, 'call browser__camera {}');
  await expect.poll(() => phone.evaluate('count')).toBe(1);
  await chat.getByRole('button', { name: 'Stop' }).click();
  await chat.getByText('Stopped.').waitFor();
  await phone.evaluate('answer()');
  await say(chat, 'call browser__device_info {}'); // what comes later is there, and the question is not
  await phone.getByRole('list', { name: 'Calls' }).getByText('device_info').waitFor();
  expect(await phone.getByText('use camera?').count()).toBe(0);
});

test('a reading of one sensor is one question, which names what is needed', async () => {
  const context = await world.context({ viewport: PHONE, permissions: ['geolocation'] });
  await context.setGeolocation({ latitude: 52.5, longitude: 13.4 });
  const phone = await context.newPage();
  await phone.addInitScript(() => localStorage.setItem('handspan.phone', JSON.stringify({ label: 'still' })));
  await phone.goto(`${world.gateway.url}/device#code=${await pairingCode()}`);
  await phone.getByText('Connected', { exact: true }).waitFor();
  const chat = await world.open();
  await say(chat, 'call still__sensors {"type": "gps"}');
  await phone.getByText('It needs: where this phone is.').waitFor();
  expect(await phone.locator('.card.ask').count()).toBe(1);
  await phone.getByRole('button', { name: 'Allow once' }).click();
  await phone.getByRole('list', { name: 'Calls' }).getByText('done').waitFor();
  await chat.locator('.call.success').waitFor();
});

test('a second tab of a phone takes over without https, and the phone stays paired', async () => {
  const plain = world.gateway.url.replace('127.0.0.1', PLAIN_HOST);
  const first = await (await world.context({ viewport: PHONE })).newPage();
  await first.goto(`${plain}/device#code=${await pairingCode()}`);
  await first.getByText('Connected', { exact: true }).waitFor();
  const second = await first.context().newPage();
  await second.goto(`${plain}/device`);
  await second.getByText('Connected', { exact: true }).waitFor();
  await first.getByText('open in another tab').waitFor();
  await turn(second.getByRole('switch', { name: 'vibrate' }), false);
  await turn(first.getByRole('switch', { name: 'device_info' }), false);
  await second.reload();
  await second.getByText('Connected', { exact: true }).waitFor();
  expect(await second.getByRole('switch', { name: 'vibrate' }).isChecked()).toBe(false);
  expect(await second.getByRole('switch', { name: 'device_info' }).isChecked()).toBe(false);
});

test('a phone whose browser keeps nothing can be paired, until it is left', async () => {
  const phone = await (await world.context({ viewport: PHONE })).newPage();
  await phone.addInitScript(() => {
    const get = () => {
      throw new DOMException('Access is denied for this document.', 'SecurityError');
    };
    Object.defineProperty(globalThis, 'localStorage', { get });
  });
  await phone.goto(`${world.gateway.url}/device#code=${await pairingCode()}`);
  await phone.getByText('Connected', { exact: true }).waitFor();
});

const ANDROID =
  'Mozilla/5.0 (Linux; Android 10; K) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/139.0.0.0 Mobile Safari/537.36';
const IPHONE =
  'Mozilla/5.0 (iPhone; CPU iPhone OS 18_5 like Mac OS X) AppleWebKit/605.1.15 (KHTML, like Gecko) Version/18.5 Mobile/15E148 Safari/604.1';

test('on Android the app is offered first, and the code is used only when the person chooses the browser', async () => {
  const phone = await (await world.context({ viewport: PHONE, userAgent: ANDROID })).newPage();
  const sent: string[] = [];
  phone.on('request', (request) => {
    if (request.method() === 'POST') sent.push(new URL(request.url()).pathname);
  });
  const code = await pairingCode();
  const root = 'qB-_'.repeat(10).concat('abc'); // base64url, as the QR code has it
  await phone.goto(`${world.gateway.url}/device#root=${root}&code=${code}`);
  const app = phone.getByRole('link', { name: 'Open in the Handspan app' });
  await app.waitFor();
  const link = new URL((await app.getAttribute('href')) ?? '');
  expect([link.protocol, link.host]).toEqual(['handspan:', 'pair']);
  expect(Object.fromEntries(link.searchParams)).toEqual({ url: world.gateway.url, root, code });
  expect(phone.url()).toBe(`${world.gateway.url}/device`);
  await checkAccess(phone);
  await photograph(phone, 'device-app');
  expect(sent).toEqual([]);
  await phone.getByRole('button', { name: 'Use this browser' }).click();
  await phone.getByText('Connected', { exact: true }).waitFor();
  expect(sent).toEqual(['/pair']);
  expect(await app.count()).toBe(0);
});

test('a paired phone that scans another code is asked, too; without a scanned code nobody is asked', async () => {
  const phone = await (await world.context({ viewport: PHONE, userAgent: ANDROID })).newPage();
  await phone.goto(`${world.gateway.url}/device`);
  await phone.getByLabel('Pairing code').fill(await pairingCode());
  await phone.getByRole('button', { name: 'Pair' }).click();
  await phone.getByText('Connected', { exact: true }).waitFor();
  const again = await phone.context().newPage();
  await again.goto(`${world.gateway.url}/device#code=${await pairingCode()}`);
  const app = again.getByRole('link', { name: 'Open in the Handspan app' });
  expect(await app.getAttribute('href')).not.toContain('root='); // this gateway's address names none
  await again.reload(); // the person chose neither: the phone is the device that it was
  await again.getByText('Connected', { exact: true }).waitFor();
});

test('a code that the app has used gets the reason in the browser', async () => {
  const phone = await (await world.context({ viewport: PHONE, userAgent: ANDROID })).newPage();
  const code = await pairingCode();
  await phone.goto(`${world.gateway.url}/device#code=${code}`);
  await phone.getByRole('link', { name: 'Open in the Handspan app' }).waitFor();
  await world.api('POST', '/pair', { code, label: 'app', scopes: ['device'] });
  await phone.getByRole('button', { name: 'Use this browser' }).click();
  await phone.getByText('wrong, used or too old').waitFor();
  await phone.getByLabel('Pairing code').waitFor();
});

test('a phone with another system pairs at once', async () => {
  const phone = await (await world.context({ viewport: PHONE, userAgent: IPHONE })).newPage();
  await phone.goto(`${world.gateway.url}/device#code=${await pairingCode()}`);
  await phone.getByText('Connected', { exact: true }).waitFor();
});
