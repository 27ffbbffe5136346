import { expect, test } from 'vitest';
import { checkAccess, PHONE, photograph, say, World } from './support/world.ts';

const world = new World('--set', 'channels.page={}');

test('a browser without a sign-in is told how to get one, and nothing else', async () => {
  const page = await (await world.context()).newPage();
  await page.goto(world.gateway.url);
  await page.getByText('handspan pair --browser').waitFor();
  expect(await page.getByLabel('Message', { exact: true }).count()).toBe(0);
  await checkAccess(page);
  await photograph(page, 'sign-in');
});

test('the sign-in link opens the chat, and the page says who is signed in and which model answers', async () => {
  const page = await world.open();
  await page.getByText('Signed in as operator').waitFor();
  await page.getByText('spoken').first().waitFor();
  await page.getByLabel('Message', { exact: true }).waitFor();
  await checkAccess(page);
});

test('signing out ends it for every tab of this browser', async () => {
  const page = await world.open();
  const other = await world.another(page, '#/tools');
  await other.getByTitle('Live updates arrive').first().waitFor();
  await page.getByRole('button', { name: 'Sign out' }).click();
  await page.getByText('handspan pair --browser').waitFor();
  await other.getByText('handspan pair --browser').waitFor();
  await page.reload();
  await page.getByText('handspan pair --browser').waitFor();
});

test('an address that nobody has written well opens its page all the same', async () => {
  const page = await world.open();
  await page.goto('about:blank');
  await page.goto(`${world.gateway.url}/#/tools/100%`);
  await page.getByRole('heading', { name: '100%' }).waitFor();
});

test('a message that an agent sends to the person stays on the page until they hide it', async () => {
  const page = await world.open();
  await say(page, 'call message {"channel": "page", "chat_id": "all", "content": "Tea is ready."}');
  const shown = page.getByRole('status').getByText('Tea is ready.');
  await shown.waitFor();
  await page.getByRole('button', { name: 'Hide' }).click();
  await shown.waitFor({ state: 'detached' });
});

test('no message of an agent is pushed out by the next ones, and a long one leaves room for the page', async () => {
  const page = await world.open();
  const send = (text: string) => `call message {"channel": "page", "chat_id": "all", "content": "${text}"}`;
  const texts = ['one', 'two', 'three', 'four', 'five', `long ${'word '.repeat(1500)}`];
  await say(page, texts.map(send).join('\nthen\n'));
  const shown = page.locator('.toast');
  await expect.poll(() => shown.count()).toBe(texts.length);
  const { y } = (await page.locator('.toasts').boundingBox()) as { y: number };
  expect(y).toBeGreaterThan(0);
  await checkAccess(page);
  for (const text of texts.toReversed()) {
    await shown
      .filter({ hasText: text.slice(0, 10) })
      .getByRole('button', { name: 'Hide' })
      .click();
  }
  await shown.first().waitFor({ state: 'detached' });
});

test('what a form is refused for stands in the form, and is gone with the next attempt', async () => {
  const page = await world.open('#/agents');
  await page.getByRole('button', { name: 'New agent' }).click();
  const dialog = page.getByRole('dialog', { name: 'New agent' });
  await dialog.getByLabel('Name').fill('General');
  await dialog.getByRole('button', { name: 'Create' }).click();
  await dialog.getByRole('alert').getByText("There is an agent 'General' already").waitFor();
  expect(await page.locator('.toast').count()).toBe(0);
  await checkAccess(page);
  await dialog.getByLabel('Name').fill('Another');
  await dialog.getByRole('button', { name: 'Create' }).click();
  await page.getByRole('heading', { name: 'Another', level: 1 }).waitFor();
  await page.getByText('Ask before every call', { exact: true }).waitFor({ state: 'attached' });
});

test('no script but the files of the gateway may run', async () => {
  const answer = await fetch(world.gateway.url);
  const policy = answer.headers.get('content-security-policy') ?? '';
  expect(policy).toContain("script-src 'self' ;");
  expect(policy).not.toContain('unsafe');
});

test('the first load is under 100 kB', async () => {
  const page = await world.open();
  await page.getByLabel('Message', { exact: true }).waitFor();
  const sizes = await page.evaluate(() =>
    performance
      .getEntriesByType('resource')
      .filter(({ name }) => /\/page\/|\/$/.test(new URL(name).pathname))
      .map((one) => [new URL(one.name).pathname, (one as PerformanceResourceTiming).encodedBodySize] as const),
  );
  const total = sizes.reduce((sum, [, size]) => sum + size, 0);
  expect(sizes.length).toBeGreaterThan(2);
  expect(total, JSON.stringify(sizes)).toBeLessThan(100_000);
});

test('on a phone the pages are in a bar below, and all of them in its menu', async () => {
  const page = await world.open('', { viewport: PHONE });
  const bar = page.getByRole('navigation', { name: 'Main pages' });
  await bar.getByRole('link', { name: 'Models' }).click();
  await page.getByRole('heading', { name: 'Models', level: 1 }).waitFor();
  const more = bar.getByRole('button', { name: 'More' });
  expect(await more.getAttribute('aria-current')).toBeNull();
  await more.click();
  await page.getByRole('dialog').getByRole('link', { name: 'Journal' }).click();
  await page.getByRole('heading', { name: 'Journal', level: 1 }).waitFor();
  expect(await more.getAttribute('aria-current')).toBe('true');
  await more.click();
  await page.getByRole('dialog').getByRole('link', { name: 'Chat' }).click();
  await say(page, 'hello');
  await page.getByText('hello').last().waitFor();
});
