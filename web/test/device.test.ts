import type { Page } from 'playwright-core';
import { expect, test } from 'vitest';
import { checkAccess, PHONE, PLAIN_HOST, photograph, say, turn, World } from './support/world.ts';

const world = new World('--set', `gateway.hosts=["${PLAIN_HOST}"]`);

/** A phone that scanned the QR code. */
async function pairedPhone(label: string): Promise<Page> {
  const { code } = await world.api<{ code: string }>('POST', '/api/pairing', { scopes: ['device'] });
  const page = await (await world.context({ viewport: PHONE, permissions: ['camera'] })).newPage();
  await page.addInitScript((name) => {
    if (!localStorage.getItem('handspan.phone'))
      localStorage.setItem('handspan.phone', JSON.stringify({ label: name }));
  }, label);
  await page.goto(`${world.gateway.url}/device#code=${code}`);
  await page.getByText('Connected', { exact: true }).waitFor();
  return page;
}

/** Nobody touches the phone before a click: for Chromium, every look of a test into a page is a touch. */
function lieUntouched(): void {
  let isActive = false;
  addEventListener('click', () => (isActive = true), { capture: true });
  Object.defineProperty(navigator, 'userActivation', { get: () => ({ isActive }) });
}

test('a phone pairs by its link, and the code is gone from the address', async () => {
  const phone = await pairedPhone('scanned');
  expect(phone.url()).toBe(`${world.gateway.url}/device`);
  await phone.getByRole('switch', { name: 'camera' }).waitFor();
  await checkAccess(phone);
  await photograph(phone, 'device');
  const { tokens } = await world.api<{ tokens: { label: string; scopes: string[] }[] }>('GET', '/api/tokens');
  expect(tokens.find(({ label }) => label === 'scanned')?.scopes).toEqual(['device']);
});

test('a code that is wrong or used gets the reason, and can be typed anew', async () => {
  const phone = await (await world.context({ viewport: PHONE })).newPage();
  await phone.goto(`${world.gateway.url}/pair#code=0000-0000-0000`);
  await phone.getByText('wrong, used or too old').waitFor();
  expect(phone.url()).toBe(`${world.gateway.url}/device`);
  await checkAccess(phone);
  await photograph(phone, 'device-pair');
  const { code } = await world.api<{ code: string }>('POST', '/api/pairing', { scopes: ['device'] });
  await phone.getByLabel('Pairing code').fill(code);
  await phone.getByRole('button', { name: 'Pair' }).click();
  await phone.getByText('Connected', { exact: true }).waitFor();
});

test('the phone asks before its camera shoots, and the photo is in the chat', async () => {
  const phone = await pairedPhone('snap');
  const chat = await world.open();
  await say(chat, 'call snap__camera {}');
  await phone.getByText('use camera?').waitFor();
  await checkAccess(phone);
  await photograph(phone, 'device-question');
  await phone.getByRole('button', { name: 'Allow once' }).click();
  await phone.getByRole('list', { name: 'Calls' }).getByText('done').waitFor();
  await phone.getByAltText('What camera gave').waitFor();
  await photograph(phone, 'device-calls');
  await chat.locator('.call img, img.artifact, img').first().waitFor();
});

test('a no is told to the agent, and a tool that is switched off is not there', async () => {
  const phone = await pairedPhone('shy');
  const chat = await world.open();
  await say(chat, 'call shy__camera {}');
  await phone.getByRole('button', { name: 'No' }).click();
  await chat.getByText('denied').first().waitFor();
  await turn(phone.getByRole('switch', { name: 'camera' }), false);
  await expect
    .poll(async () => {
      const { tools } = await world.api<{ tools: { name: string }[] }>('GET', '/api/tools');
      return tools.some(({ name }) => name === 'shy__camera');
    })
    .toBe(false);
});

test('a question waits while the phone sleeps, and answered after the return the call goes on', async () => {
  const phone = await pairedPhone('away');
  const chat = await world.open();
  await say(chat, 'call away__camera {}');
  await phone.getByText('use camera?').waitFor();
  const sleeping = await phone.context().newCDPSession(phone);
  await sleeping.send('Page.setWebLifecycleState', { state: 'frozen' });
  await expect.poll(() => chat.locator('.call').last().textContent()).toMatch(/away__camera.*waits/);
  await sleeping.send('Page.setWebLifecycleState', { state: 'active' });
  await phone.getByRole('button', { name: 'Allow once' }).click();
  await phone.getByRole('list', { name: 'Calls' }).getByText('done').waitFor();
  await chat.locator('.call.success').waitFor();
});

test('a page that is loaded anew is the same device, until it is told to forget the gateway', async () => {
  const phone = await pairedPhone('again');
  await phone.reload();
  await phone.getByText('Connected', { exact: true }).waitFor();
  await phone.getByRole('button', { name: 'Forget this gateway' }).click();
  await phone.getByLabel('Pairing code').waitFor();
});

test('a permission that the browser denies for ever shows where to enable it', async () => {
  const phone = await pairedPhone('never');
  const browser = await phone.context().newCDPSession(phone);
  const { browserContextId = '' } = (await browser.send('Target.getTargetInfo')).targetInfo;
  const denied = { permission: { name: 'camera' }, setting: 'denied' } as const;
  await browser.send('Browser.setPermission', { ...denied, origin: world.gateway.url, browserContextId });
  const chat = await world.open();
  await say(chat, 'call never__camera {}');
  await phone.getByText("To allow it, change the browser's site settings").waitFor();
  await chat.getByText('site settings').first().waitFor();
});

test('without HTTPS the phone says which tools are off and what to do, and what is left works; so does the chat', async () => {
  const plain = world.gateway.url.replace('127.0.0.1', PLAIN_HOST);
  const { code } = await world.api<{ code: string }>('POST', '/api/pairing', { scopes: ['device'] });
  const phone = await (await world.context({ viewport: PHONE })).newPage();
  await phone.addInitScript(() => localStorage.setItem('handspan.phone', '{"label":"plain"}'));
  await phone.addInitScript(lieUntouched);
  await phone.goto(`${plain}/device#code=${code}`);
  await phone.getByText('Connected', { exact: true }).waitFor();
  expect(await phone.evaluate(() => isSecureContext)).toBe(false);
  await phone.getByRole('heading', { name: 'Some tools are off without HTTPS' }).waitFor();
  expect(await phone.getByRole('switch', { name: 'camera' }).isDisabled()).toBe(true);
  await phone.getByText('needs HTTPS').first().waitFor();
  await checkAccess(phone);
  await photograph(phone, 'device-plain');
  const chat = await (await world.context()).newPage();
  await chat.goto((await world.signInLink()).replace('127.0.0.1', PLAIN_HOST));
  await say(chat, 'call plain__device_info {}');
  await chat.locator('.call.success').waitFor();
  await chat.getByRole('button', { name: 'Copy the message' }).click();
  await chat.getByRole('button', { name: 'Copied' }).waitFor();
  await say(chat, 'call plain__pick_file {}'); // unlike `device_info`, it needs a tap
  await phone.getByText('Tap to let pick_file open').waitFor();
  const opened = phone.waitForEvent('filechooser');
  await phone.getByRole('button', { name: 'Go on' }).click();
  await (await opened).setFiles({ name: 'a.txt', mimeType: 'text/plain', buffer: Buffer.from('hello') });
  await chat.locator('.call.success').nth(1).waitFor();
});

test('the phone shows how to trust the root certificate of its gateway', async () => {
  const phone = await (await world.context({ viewport: PHONE })).newPage();
  await phone.route('**/device/root.crt', (route) => route.fulfill({ body: 'a root' }));
  await phone.goto(`${world.gateway.url}/device`);
  await phone.getByText('Load the root certificate').click();
  for (const name of ['Android', 'iPhone and iPad']) await phone.getByRole('heading', { name }).waitFor();
  await checkAccess(phone);
  await photograph(phone, 'device-root');
});

test('the screen stays on while the phone is connected', async () => {
  const { code } = await world.api<{ code: string }>('POST', '/api/pairing', { scopes: ['device'] });
  const phone = await (await world.context({ viewport: PHONE })).newPage();
  await phone.addInitScript(() => {
    const lock = { released: false, release: async () => void Object.assign(lock, { released: true }) };
    const request = async () => Object.assign(lock, { released: false });
    Object.defineProperty(navigator, 'wakeLock', { value: { request } });
    lock.released = true;
    Object.assign(globalThis, { isReleased: () => lock.released });
  });
  await phone.goto(`${world.gateway.url}/device#code=${code}`);
  await phone.getByText('Connected', { exact: true }).waitFor();
  await expect.poll(() => phone.evaluate('isReleased()')).toBe(false);
  await phone.getByRole('button', { name: 'Forget this gateway' }).click();
  await expect.poll(() => phone.evaluate('isReleased()')).toBe(true);
});
