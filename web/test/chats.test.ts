// The list of chats: where a person finds what was said, and keeps it in order.
import type { Page } from 'playwright-core';
import { expect, test } from 'vitest';
import { checkAccess, photograph, say, World } from './support/world.ts';

const world = new World('--set', 'agents={"General": {}, "Careful": {"mode": "ask_always"}}');

function chats(page: Page) {
  return page.getByRole('navigation', { name: 'Chats' });
}

function row(page: Page, name: string) {
  return chats(page).getByRole('listitem').filter({ hasText: name });
}

/** Begins a chat that is called as its first message. */
async function begin(page: Page, text: string): Promise<void> {
  await page.getByRole('link', { name: 'New chat', exact: true }).click();
  await page.getByText('What shall the agent do?').waitFor();
  await say(page, text);
  await page.getByRole('button', { name: 'Answer again' }).waitFor();
  await row(page, text.slice(0, 10)).waitFor();
}

/** Chooses in the menu of a chat of the list. */
async function choose(page: Page, name: string, what: string): Promise<void> {
  await row(page, name).hover();
  await row(page, name)
    .getByLabel(/^More for/)
    .click();
  await row(page, name).getByRole('button', { name: what, exact: true }).click();
}

test('chats stand by day; one is pinned, named in its place, archived and taken out again', async () => {
  const page = await world.open();
  await begin(page, 'apples and pears');
  await begin(page, 'bread and butter');
  await chats(page).getByRole('heading', { name: 'Today' }).waitFor();
  await choose(page, 'apples', 'Pin');
  await chats(page).getByRole('heading', { name: 'Pinned' }).waitFor();
  await choose(page, 'apples', 'Rename');
  await page.getByLabel('Name of the chat').fill('Fruit of the week');
  await page.keyboard.press('Enter');
  await row(page, 'Fruit of the week').waitFor();
  await checkAccess(page);
  await photograph(page, 'chats');
  await choose(page, 'bread', 'Archive');
  await row(page, 'bread').waitFor({ state: 'detached' });
  await page.getByText('What shall the agent do?').waitFor(); // it was the one that was open
  await chats(page)
    .locator('summary', { hasText: /^Archive$/ })
    .click();
  await choose(page, 'bread', 'Take out of the archive');
  await chats(page).getByRole('heading', { name: 'Today' }).waitFor();
});

test('a chat that was deleted is back by a click, and is gone for other pages until then', async () => {
  const page = await world.open();
  await begin(page, 'do not lose this');
  const other = await world.another(page, '#/chat');
  await row(other, 'do not lose').waitFor();
  await choose(page, 'do not lose', 'Delete');
  await page.getByRole('dialog').getByRole('button', { name: 'Delete' }).click();
  await row(page, 'do not lose').waitFor({ state: 'detached' });
  await row(other, 'do not lose').waitFor({ state: 'detached' });
  await page.getByRole('button', { name: 'Undo' }).click();
  await row(other, 'do not lose').waitFor();
  await page.getByRole('article', { name: 'You' }).getByText('do not lose this').waitFor();
});

test('words are found with their place, and a click leads there', async () => {
  const page = await world.open();
  await begin(page, 'the first thing is a zebra');
  for (let turn = 0; turn < 3; turn += 1) {
    await say(page, Array.from({ length: 40 }, (_, line) => `turn ${turn} line ${line}`).join('\n'));
    await page.getByRole('article', { name: 'Agent' }).last().getByText(`turn ${turn} line 39`).waitFor();
    await page.getByRole('button', { name: 'Answer again' }).waitFor();
  }
  await page.getByLabel('Search in all chats').fill('zebra');
  await chats(page).locator('mark', { hasText: 'zebra' }).waitFor();
  await checkAccess(page);
  await photograph(page, 'search');
  await chats(page).getByRole('link').first().click();
  const said = page.getByRole('article', { name: 'You' }).first();
  await expect
    .poll(() =>
      said.evaluate((element) => {
        const box = (element.closest('.talk-scroll') as HTMLElement).getBoundingClientRect();
        const { top, bottom } = element.getBoundingClientRect();
        return bottom > box.top && top < box.bottom;
      }),
    )
    .toBe(true);
});

test('what was found in a version that was left says so', async () => {
  const page = await world.open();
  await begin(page, 'about animals of the sea');
  await say(page, 'where do walruses live?');
  await page.getByRole('article', { name: 'Agent' }).getByText('walruses').waitFor();
  await page.getByRole('button', { name: 'Answer again' }).waitFor();
  await page.getByRole('article', { name: 'You' }).last().hover();
  await page.getByRole('button', { name: 'Edit and ask again' }).last().click();
  await page.getByLabel('Edit the message').fill('where do seals live?');
  await page.keyboard.press('Enter');
  await page.getByRole('article', { name: 'Agent' }).getByText('seals').waitFor();
  await page.getByRole('button', { name: 'Answer again' }).waitFor();
  await page.getByLabel('Search in all chats').fill('walruses live');
  await chats(page).getByText('in a version that was left').waitFor();
  await checkAccess(page);
  await page.getByLabel('Search in all chats').fill('seals live');
  await chats(page).locator('mark', { hasText: 'seals' }).waitFor();
  expect(await chats(page).getByText('in a version that was left').count()).toBe(0);
});

test('runs stand apart from chats, and a chat at work or with a question has its mark', async () => {
  const page = await world.open();
  await world.api('POST', '/api/sessions', { name: 'nightly report', kind: 'run' });
  await page.getByRole('combobox', { name: 'Agent' }).selectOption('Careful');
  await say(page, 'call exec_shell {"command": "true"}');
  await page.getByRole('region', { name: 'Careful wants to use exec_shell' }).waitFor();
  await page.getByRole('link', { name: 'New chat', exact: true }).click();
  await page.getByRole('dialog', { name: 'Careful wants to use exec_shell' }).getByLabel('Close').click();
  await chats(page).getByText('waits for you').waitFor();
  await checkAccess(page);
  await chats(page).getByText('waits for you').click();
  await page.getByRole('button', { name: 'Deny', exact: true }).click();
  await page.getByRole('button', { name: 'Answer again' }).waitFor();
  expect(await row(page, 'nightly report').count()).toBe(0);
});

test('the model of one chat is chosen below its field, and the transcript says from where on it answers', async () => {
  const page = await world.open();
  await begin(page, 'who are you?');
  await page.getByRole('combobox', { name: 'Model' }).selectOption('offline');
  await expect.poll(() => page.getByRole('combobox', { name: 'Model' }).inputValue()).toBe('offline');
  await say(page, 'and now?');
  await page.getByText(/^From here on: /).waitFor();
  await page.reload();
  await page.getByText(/^From here on: /).waitFor();
  expect(await page.getByRole('combobox', { name: 'Model' }).inputValue()).toBe('offline');
  await begin(page, 'another chat');
  expect(await page.getByRole('combobox', { name: 'Model' }).inputValue()).toBe('');
});
