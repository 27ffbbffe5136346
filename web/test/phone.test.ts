// The phone's page in browsers that are not as one expects. A gateway of its own: one lets ten devices in a minute.
import { expect, test } from 'vitest';
import { PHONE, PLAIN_HOST, say, turn, World } from './support/world.ts';

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
