import type { Page } from 'playwright-core';
import { expect, test } from 'vitest';
import { checkAccess, PHONE, photograph, say, turn, World } from './support/world.ts';

const world = new World();

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

test('a question waits while the page is hidden, and the phone is back after a cut', async () => {
  const phone = await pairedPhone('away');
  const chat = await world.open();
  await say(chat, 'call away__camera {}');
  await phone.getByText('use camera?').waitFor();
  await phone.context().setOffline(true);
  await phone.context().setOffline(false);
  await phone.getByRole('button', { name: 'Allow once' }).click();
  await phone.getByRole('list', { name: 'Calls' }).getByText('done').waitFor();
  await phone.reload();
  await phone.getByText('Connected', { exact: true }).waitFor();
  await phone.getByRole('button', { name: 'Forget this gateway' }).click();
  await phone.getByLabel('Pairing code').waitFor();
});

test('a permission that the browser denies for ever shows where to enable it', async () => {
  const phone = await pairedPhone('never');
  await phone.evaluate(() => {
    const query = navigator.permissions.query.bind(navigator.permissions);
    navigator.permissions.query = async (asked) =>
      asked.name === ('camera' as PermissionName) ? ({ state: 'denied' } as PermissionStatus) : query(asked);
  });
  const chat = await world.open();
  await say(chat, 'call never__camera {}');
  await phone.getByText("To allow it, change the browser's site settings").waitFor();
  await chat.getByText('site settings').first().waitFor();
});
