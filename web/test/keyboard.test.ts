// The page by a keyboard alone: no test here points at anything.
import type { Locator, Page } from 'playwright-core';
import { expect, test } from 'vitest';
import { World } from './support/world.ts';

const world = new World('--set', 'agents={"General": {}, "Careful": {"mode": "ask_always"}}');
const FARTHEST = 150;

/** A signed-in page. The link is all that a person needs. */
async function signIn(): Promise<Page> {
  const page = await (await world.context()).newPage();
  await page.goto(await world.signInLink());
  await page.getByLabel('Message', { exact: true }).waitFor();
  await expectFocus(page.getByLabel('Message', { exact: true }));
  return page;
}

/** Waits until this has the focus, and checks that one sees it. */
async function expectFocus(control: Locator): Promise<void> {
  await expect.poll(() => control.evaluate((element) => element === document.activeElement)).toBe(true);
  expect(await whatIsWrong(control.page())).toBe('');
}

/** Presses Tab until this has the focus. On the way each thing that has it shows it. */
async function tabTo(control: Locator, key: 'Tab' | 'Shift+Tab' = 'Tab'): Promise<void> {
  const page = control.page();
  await control.waitFor({ state: 'attached' });
  for (let step = 0; step < FARTHEST; step += 1) {
    await page.keyboard.press(key);
    expect(await whatIsWrong(page), `after ${step + 1} times ${key}`).toBe('');
    if (await control.evaluate((element) => element === document.activeElement)) return;
  }
  throw new Error(`${FARTHEST} times ${key} do not lead to ${control}`);
}

/** Why the focus can not be seen; empty when it can. */
function whatIsWrong(page: Page): Promise<string> {
  return page.evaluate(() => {
    const focused = document.activeElement;
    if (!(focused instanceof HTMLElement) || focused === document.body) return 'nothing has the focus';
    const { width, height, bottom, right } = focused.getBoundingClientRect();
    if (width < 1 || height < 1 || bottom < 0 || right < 0) return `out of sight: ${focused.outerHTML}`;
    // A switch shows it beside its box, a field in the frame around it.
    const shownBy = [focused, focused.nextElementSibling, focused.parentElement, focused.closest('form')];
    const isSeen = shownBy.some((one) => one && !['none', ''].includes(getComputedStyle(one).outlineStyle));
    return isSeen ? '' : `without an outline: ${focused.outerHTML.slice(0, 200)}`;
  });
}

function messageField(page: Page): Locator {
  return page.getByLabel('Message', { exact: true });
}

async function say(page: Page, text: string): Promise<void> {
  await expectFocus(messageField(page));
  await page.keyboard.type(text);
  await page.keyboard.press('Enter');
}

test('by keyboard: sign in, say something, open a call, and switch its tool off', async () => {
  const page = await signIn();
  await say(page, 'call get_current_time');
  const call = page.getByRole('button', { name: /^get_current_time.*done/ });
  await call.waitFor();
  await page.getByRole('button', { name: 'Answer again' }).waitFor();
  await expectFocus(messageField(page)); // the next message can be written
  await tabTo(call, 'Shift+Tab');
  await page.keyboard.press('Enter');
  await expect.poll(() => call.getAttribute('aria-expanded')).toBe('true');
  await page.getByRole('heading', { name: 'Arguments' }).waitFor();
  await expectFocus(call);
  const off = page.getByRole('button', { name: 'Switch it off' });
  await tabTo(off);
  await page.keyboard.press('Space');
  await page.getByRole('status').getByText('get_current_time is off for all agents').waitFor();
  await expectFocus(page.getByRole('button', { name: 'Switch it on' })); // a second press takes it back
  await page.keyboard.press('Space');
  await expectFocus(off);
});

test('by keyboard: a question under its call is answered and edited, and gives the focus back', async () => {
  const page = await signIn();
  await tabTo(page.getByRole('combobox', { name: 'Agent' }));
  await page.keyboard.press('c');
  await expect.poll(() => page.getByRole('combobox', { name: 'Agent' }).inputValue()).toBe('Careful');
  await tabTo(messageField(page), 'Shift+Tab');

  await say(page, 'call write_file {"path": "a.txt", "content": "one"}');
  const card = page.getByRole('region', { name: 'Careful wants to use write_file' });
  await card.waitFor();
  await expectFocus(messageField(page)); // no key that was meant for the field says yes
  await tabTo(card.getByRole('button', { name: 'Deny', exact: true }), 'Shift+Tab');
  await page.keyboard.press('Enter');
  await page.locator('.call.error').waitFor();
  await page.getByRole('button', { name: 'Answer again' }).waitFor();
  expect(await whatIsWrong(page)).toBe('');
  await tabTo(messageField(page));

  await say(page, 'call write_file {"path": "a.txt", "content": "one"}');
  await tabTo(card.getByRole('button', { name: 'Edit', exact: true }), 'Shift+Tab');
  await page.keyboard.press('Enter');
  await expectFocus(card.getByLabel('path'));
  await tabTo(card.getByRole('button', { name: 'Back' }));
  await page.keyboard.press('Enter');
  await expectFocus(card.getByRole('button', { name: 'Edit', exact: true }));
  await page.keyboard.press('Enter');
  await tabTo(card.getByLabel('content'));
  await page.keyboard.type('two');
  await tabTo(card.getByRole('button', { name: 'Allow with these' }));
  await page.keyboard.press('Space');
  await page.locator('.call.success').waitFor();
  await page.getByRole('button', { name: 'Answer again' }).waitFor();
  expect(await whatIsWrong(page)).toBe('');
  await tabTo(messageField(page));

  await say(page, 'call write_file {"path": "b.txt", "content": "x"}');
  await card.waitFor();
  await tabTo(page.getByRole('link', { name: /^Questions/ }), 'Shift+Tab');
  await page.keyboard.press('Enter');
  await expectFocus(page.getByRole('main', { name: 'Questions' }));
  await tabTo(page.getByRole('button', { name: 'Allow once' }));
  await page.keyboard.press('Enter');
  await page.getByText('Nothing waits for you').waitFor();
  expect(await whatIsWrong(page)).toBe('');
});

test('by keyboard: two questions, one after the other, and the focus is in the second', async () => {
  const page = await signIn();
  const ask = (path: string) =>
    world.api('POST', '/api/tools/write_file/call', { args: { path, content: 'x' }, agent: 'Careful' });
  const first = ask('first.txt');
  const dialog = page.getByRole('dialog');
  await dialog.getByText('first.txt').waitFor();
  const second = ask('second.txt');
  await page.getByRole('link', { name: /^Questions 2/ }).waitFor({ state: 'attached' });
  await tabTo(dialog.getByRole('button', { name: 'Allow once' }));
  await page.keyboard.press('Enter');
  await first;
  await dialog.getByText('second.txt').waitFor();
  await expect.poll(() => dialog.evaluate((element) => element.contains(document.activeElement))).toBe(true);
  expect(await whatIsWrong(page)).toBe('');
  await tabTo(dialog.getByRole('button', { name: 'Deny', exact: true }));
  await page.keyboard.press('Enter');
  await second.catch(() => {}); // it was denied
  await expectFocus(messageField(page));
});

test('by keyboard: from page to page, a switch is turned, a thing is opened and left again', async () => {
  const page = await signIn();
  await tabTo(page.getByRole('link', { name: 'Tools', exact: true }), 'Shift+Tab');
  await page.keyboard.press('Enter');
  await expectFocus(page.getByRole('main', { name: 'Tools' }));
  await tabTo(page.getByLabel('Search tools'));
  await page.keyboard.type('get_current_time');
  const control = page.getByRole('switch', { name: 'get_current_time is on' });
  await tabTo(control);
  await page.keyboard.press('Space');
  await expect
    .poll(() => world.api<{ disabled: string[] }>('GET', '/api/switches'))
    .toMatchObject({
      disabled: ['get_current_time'],
    });
  await expectFocus(control);
  expect(await control.isChecked()).toBe(false);
  await page.keyboard.press('Space');
  await expect.poll(() => world.api<{ disabled: string[] }>('GET', '/api/switches')).toMatchObject({ disabled: [] });
  await tabTo(page.getByRole('link', { name: /^get_current_time/ }), 'Shift+Tab');
  await page.keyboard.press('Enter');
  await page.getByRole('heading', { name: 'get_current_time', level: 1 }).waitFor();
  expect(await whatIsWrong(page)).toBe('');
  await tabTo(page.getByRole('button', { name: 'Run' }));
  await page.keyboard.press('Enter');
  await page.getByText('Last calls').waitFor();
  await expectFocus(page.getByRole('button', { name: 'Run' })); // while it ran, too
  await tabTo(page.getByRole('main').getByRole('link', { name: 'Tools', exact: true }), 'Shift+Tab');
  await page.keyboard.press('Enter');
  await page.getByLabel('Search tools').waitFor();
  expect(await whatIsWrong(page)).toBe('');
});

test('by keyboard: a dialog gives the focus back, also when what had it is gone', async () => {
  const page = await signIn();
  await tabTo(page.getByRole('link', { name: 'Tokens', exact: true }), 'Shift+Tab');
  await page.keyboard.press('Enter');
  await expectFocus(page.getByRole('main', { name: 'Tokens' }));
  const make = page.getByRole('button', { name: 'New token' });
  await tabTo(make);
  await page.keyboard.press('Enter');
  await page.getByRole('dialog').waitFor();
  await page.keyboard.press('Escape');
  await expectFocus(make);
  await Promise.all(['Enter', 'Escape', 'Enter'].map((key) => page.keyboard.press(key))); // faster than it closes
  await tabTo(page.getByRole('dialog').getByLabel('Label'));
  await page.keyboard.type('laptop');
  await page.keyboard.press('Enter');
  await page.getByText('it is not shown again').waitFor();
  await tabTo(page.getByRole('dialog').getByRole('button', { name: 'Done' }));
  await page.keyboard.press('Enter');
  await expectFocus(make);
  await tabTo(page.getByRole('button', { name: 'Revoke laptop' }));
  await page.keyboard.press('Enter');
  await tabTo(page.getByRole('dialog').getByRole('button', { name: 'Revoke' }));
  await page.keyboard.press('Enter');
  await expect.poll(() => page.getByRole('button', { name: 'Revoke laptop' }).count()).toBe(0);
  await expect.poll(() => whatIsWrong(page)).toBe('');

  await page.goto(`${world.gateway.url}/#/models/add`);
  await tabTo(page.getByRole('dialog').getByRole('button', { name: /Anthropic/ }));
  await page.keyboard.press('Enter');
  await tabTo(page.getByRole('radio', { name: 'Paste a key' }));
  await page.keyboard.press('ArrowDown');
  await expectFocus(page.getByRole('radio', { name: 'Name an environment variable' }));
  await page.keyboard.press('Escape');
  await page.getByRole('dialog').waitFor({ state: 'detached' });
  await expect.poll(() => whatIsWrong(page)).toBe('');
});

test('by keyboard: the menu of a chat opens, closes by Escape, and renames the chat in its place', async () => {
  const page = await signIn();
  await say(page, 'hello');
  await page.getByRole('button', { name: 'Answer again' }).waitFor();
  const menu = page.getByLabel('More for this chat');
  await tabTo(menu, 'Shift+Tab');
  await page.keyboard.press('Enter');
  await tabTo(page.getByRole('button', { name: 'Export' }));
  await page.keyboard.press('Escape');
  await page.getByRole('button', { name: 'Export' }).waitFor({ state: 'hidden' });
  await expectFocus(menu);
  await page.keyboard.press('Enter');
  await tabTo(page.getByRole('button', { name: 'Rename' }));
  await page.keyboard.press('Enter');
  await expectFocus(page.getByLabel('Name of the chat'));
  await page.keyboard.type('Greetings');
  await page.keyboard.press('Enter');
  await page.getByRole('heading', { name: 'Greetings' }).waitFor();
  await expect.poll(() => whatIsWrong(page)).toBe('');
  await tabTo(page.getByRole('link', { name: 'Greetings' }), 'Shift+Tab');
  await tabTo(page.getByLabel('More for Greetings'));
  await page.keyboard.press('Enter');
  await tabTo(page.getByRole('button', { name: 'Pin', exact: true }));
  await page.keyboard.press('Enter');
  await page.getByRole('heading', { name: 'Pinned' }).waitFor();
  await expect.poll(() => whatIsWrong(page)).toBe('');
});
