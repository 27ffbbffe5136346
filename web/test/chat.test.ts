import type { Page } from 'playwright-core';
import { expect, test } from 'vitest';
import { checkAccess, PHONE, photograph, say, World } from './support/world.ts';

const world = new World('--set', 'agents={"General": {}, "Careful": {"mode": "ask_always"}}');
const PIXEL = Buffer.from(
  'iVBORw0KGgoAAAANSUhEUgAAAAoAAAAKCAYAAACNMs+9AAAAFUlEQVR42mNk+M9Qz0AEYBxVSF+FABJADveWkH6oAAAAAElFTkSuQmCC',
  'base64',
);

/** What the agent said last. */
function lastReply(page: Page) {
  return page.getByRole('article', { name: 'Agent' }).last();
}

async function chooseAgent(page: Page, name: string): Promise<void> {
  await page.getByRole('combobox', { name: 'Agent' }).selectOption(name);
}

test('calls are one line each, side by side where they ran so, and one switch shows all of them', async () => {
  const page = await world.open();
  await say(page, 'call get_current_time\ncall list_directory {"path": "."}\nthen\n**Done** `x`\n\n```\ncode\n```');
  await page.getByText('2 calls side by side').waitFor();
  await lastReply(page).locator('strong', { hasText: 'Done' }).waitFor();
  const calls = page.locator('.call');
  await expect.poll(() => calls.first().textContent()).toMatch(/get_current_time.*gateway.*done.*ms/);
  await expect.poll(() => calls.nth(1).locator('.call-progress').textContent()).toBe('.'); // what it was called with
  expect(await page.getByText('Arguments').count()).toBe(0);
  await page.getByRole('button', { name: 'Compact' }).click();
  await expect.poll(() => page.getByText('Arguments', { exact: true }).count()).toBe(2);
  await checkAccess(page);
  await photograph(page, 'chat-detailed');
  await page.reload();
  await page.getByRole('button', { name: 'Detailed' }).waitFor();
  await expect.poll(() => page.getByText('Arguments', { exact: true }).count()).toBe(2);
  await page.getByRole('button', { name: 'Detailed' }).click();
  await photograph(page, 'chat');
  await page.setViewportSize(PHONE);
  expect(await page.evaluate(() => document.documentElement.scrollWidth)).toBe(PHONE.width);
  expect(await page.locator('.talk').evaluate((element) => element.scrollWidth <= element.clientWidth)).toBe(true);
});

test('text that runs from right to left begins at the right, also beside text that does not', async () => {
  const page = await world.open();
  await say(page, 'مرحبا، كيف الحال؟\n- أول\n# and English');
  await lastReply(page).getByText('and English').waitFor();
  const direction = (text: string) =>
    page
      .getByText(text)
      .last()
      .evaluate((element) => [getComputedStyle(element).direction, getComputedStyle(element).textAlign]);
  expect(await direction('مرحبا')).toEqual(['rtl', 'start']);
  expect(await direction('أول')).toEqual(['rtl', 'start']);
  expect(await direction('and English')).toEqual(['ltr', 'start']);
  const bubble = page.locator('.bubble');
  expect(await bubble.evaluate((element) => getComputedStyle(element).direction)).toBe('rtl');
});

test('a failed call says what is wrong, in its block', async () => {
  const page = await world.open();
  await say(page, 'call read_file {"path": "nothing.txt"}');
  await expect.poll(() => page.locator('.call.error').textContent()).toContain('File not found: nothing.txt');
});

test('text of a model can neither run a script nor load an image of another server', async () => {
  const page = await world.open();
  await say(
    page,
    'safe <img src=x onerror="document.title=1"> ![a picture](https://example.com/x.png) <style>*{color:red}</style>',
  );
  await lastReply(page).getByRole('link', { name: 'a picture' }).waitFor();
  expect(await lastReply(page).locator('img, style, [onerror]').count()).toBe(0);
});

test('an approval is asked where the person is: edited, allowed, denied; and it goes where it is answered elsewhere', async () => {
  const page = await world.open();
  await chooseAgent(page, 'Careful');
  await say(
    page,
    'call write_file {"path": "a.txt", "content": "one"}\nthen\ncall read_file {"path": "a.txt"}\nthen\n{results}',
  );
  const card = page.locator('.call').getByRole('region', { name: 'Careful wants to use write_file' });
  await card.getByText('+one').waitFor(); // the diff of the file
  expect(await page.getByRole('dialog').count()).toBe(0);
  await checkAccess(page);
  await photograph(page, 'approval');
  await card.getByRole('button', { name: 'Edit', exact: true }).click();
  await card.getByLabel('content').fill('lost');
  await card.getByRole('button', { name: 'Back' }).click();
  await card.getByText('+one').waitFor();
  await card.getByRole('button', { name: 'Edit', exact: true }).click();
  await card.getByRole('button', { name: 'As JSON' }).click();
  await card.getByLabel('Arguments').fill('{"path": "a.txt"}');
  await card.getByRole('button', { name: 'Allow with these' }).click();
  await card
    .getByRole('alert')
    .getByText(/content/)
    .waitFor(); // the gateway checks what a person writes
  await checkAccess(page);
  await card.getByRole('button', { name: 'As a form' }).click();
  await card.getByLabel('content').fill('two');
  await card.getByRole('button', { name: 'Allow with these' }).click();
  const reading = page.getByRole('region', { name: 'Careful wants to use read_file' });
  await reading.waitFor();
  const other = await world.another(page);
  await other
    .getByRole('dialog', { name: 'Careful wants to use read_file' })
    .getByRole('button', { name: 'Allow once' })
    .click();
  await reading.waitFor({ state: 'hidden' });
  await expect.poll(() => lastReply(page).textContent()).toContain('two');
  expect(await page.locator('.call-line').first().textContent()).toContain('content: two'); // what ran
  await other.close();
  await say(page, 'call write_file {"path": "b.txt", "content": "x"}');
  const again = page.getByRole('region', { name: 'Careful wants to use write_file' });
  await again.getByRole('button', { name: 'Deny', exact: true }).click();
  await expect.poll(() => page.locator('.call.error').last().textContent()).toContain('did not approve');
});

test('a double click answers one question: the next one waits for a click of its own', async () => {
  const page = await world.open('#/tools');
  const write = (path: string) =>
    world.api('POST', '/api/tools/write_file/call', { args: { path, content: 'x' }, agent: 'Careful' });
  const calls = [write('once.txt'), write('twice.txt')];
  const dialog = page.getByRole('dialog', { name: 'Careful wants to use write_file' });
  await page.getByRole('link', { name: /^Questions 2/ }).waitFor({ state: 'attached' });
  const shown = await dialog.locator('.arguments-path').textContent();
  const { x, y, width, height } = (await dialog.getByRole('button', { name: 'Allow once' }).boundingBox()) as DOMRect;
  await page.mouse.click(x + width / 2, y + height / 2);
  await expect.poll(() => dialog.locator('.arguments-path').textContent()).not.toBe(shown);
  await page.mouse.down({ clickCount: 2 });
  await page.mouse.up({ clickCount: 2 });
  await Promise.race(calls);
  await dialog.getByRole('button', { name: 'Allow once' }).click();
  await Promise.all(calls);
});

test('what is invisible in the arguments of a call is shown before it is approved, and stays when they are edited', async () => {
  const page = await world.open();
  await chooseAgent(page, 'Careful');
  await say(page, 'call write_file {"path": "hid.txt", "content": "a\u202Eb\u200B\u{E0041} 👩‍💻"}\nthen\n{results}');
  const card = page.getByRole('region', { name: 'Careful wants to use write_file' });
  await card.getByText('+a\\u202eb\\u200b').waitFor();
  await card.getByRole('button', { name: 'Edit', exact: true }).click();
  expect(await card.getByLabel('Arguments').inputValue()).toContain('"a\\u202eb\\u200b\\udb40\\udc41 👩‍💻"');
  await card.getByRole('button', { name: 'Allow with these' }).click();
  await lastReply(page).getByText('hid.txt').waitFor();
  await expect.poll(() => page.locator('.call-line').textContent()).toContain('a\\u202eb');
  const read = () => world.api('POST', '/api/tools/read_file/call', { args: { path: 'hid.txt' } });
  await expect.poll(read).toMatchObject({ result: 'a\u202Eb\u200B\u{E0041} 👩‍💻' }); // the call may still run
});

test('a question of the agent is answered by one click on an option, or by a text', async () => {
  const page = await world.open();
  await say(page, 'call ask_user {"question": "Which colour?", "options": ["red", "blue"]}\nthen\n{results}');
  const card = page.getByRole('region', { name: 'General asks you' });
  await card.getByText('Which colour?').waitFor();
  await checkAccess(page);
  await photograph(page, 'question');
  await card.getByRole('button', { name: 'blue', exact: true }).click();
  await expect.poll(() => lastReply(page).textContent()).toContain('blue');
  await say(page, 'call ask_user {"question": "How are you?"}\nthen\n{results}');
  await card.getByRole('textbox').fill('quite well');
  await card.getByRole('button', { name: 'Answer', exact: true }).click();
  await expect.poll(() => lastReply(page).textContent()).toContain('quite well');
});

test('a reload in the middle keeps what has arrived; a message that joins is shown as queued; stop ends it', async () => {
  const page = await world.open();
  await say(page, 'Half an answer.\ncall ask_user {"question": "Wait?"}\nthen\nthe rest');
  await lastReply(page).getByText('Half an answer.').waitFor();
  await expect.poll(() => page.locator('.queued').count()).toBe(0); // the first message is part of the chat
  await say(page, 'one more thing');
  await page.getByText('queued: it joins at the next step').waitFor();
  await page.reload();
  await lastReply(page).getByText('Half an answer.').waitFor();
  await expect.poll(() => page.locator('.call').last().textContent()).toMatch(/ask_user.*(running|waits)/);
  await page.getByRole('button', { name: 'Stop' }).click();
  await page.getByText('Stopped. What had arrived is kept.').waitFor();
  await lastReply(page).getByText('Half an answer.').waitFor();
});

function textFile(name: string) {
  return { name, mimeType: 'text/plain', buffer: Buffer.from(name) };
}

test('a message whose files are on their way arrives when the person has left; files chosen meanwhile are for the next', async () => {
  const page = await world.open();
  let release = () => {};
  const released = new Promise<void>((resolve) => {
    release = resolve;
  });
  await page.route('**/api/artifacts?*', async (route) => {
    await released;
    await route.continue();
  });
  const field = page.getByLabel('Message', { exact: true });
  await page.locator('.attach input').setInputFiles([textFile('first.txt')]);
  await say(page, 'take the first');
  await page.getByText('sending').waitFor();
  await say(page, 'and tell me');
  await page.locator('.attach input').setInputFiles([textFile('second.txt')]);
  await field.fill('then the second');
  await page.getByRole('link', { name: 'Tools', exact: true }).click();
  await page.getByRole('heading', { name: 'Tools', level: 1 }).waitFor();
  release();
  await page.goBack();
  const said = page.getByRole('article', { name: 'You' });
  const isText = (line: string) => line !== '' && !/^\d{2}:\d{2}$/.test(line); // the time stands behind it
  const texts = async () => (await said.allInnerTexts()).map((one) => one.split('\n').filter(isText).join(': '));
  await expect.poll(texts).toEqual(['first.txt: take the first', 'and tell me']);
  expect(await field.inputValue()).toBe('then the second');
  await page.getByRole('list', { name: 'Attached files' }).getByText('second.txt').waitFor();
});

test('what is written and not sent is there again after the way to another page, and files may be dropped anywhere', async () => {
  const page = await world.open();
  const field = page.getByLabel('Message', { exact: true });
  await field.fill('a long story');
  const files = await page.evaluateHandle(() => {
    const given = new DataTransfer();
    given.items.add(new File(['x'], 'dropped.txt', { type: 'text/plain' }));
    return given;
  });
  await page.locator('.talk-scroll').dispatchEvent('drop', { dataTransfer: files });
  await page.getByRole('list', { name: 'Attached files' }).getByText('dropped.txt').waitFor();
  await page.getByRole('link', { name: 'Tools', exact: true }).click();
  await page.getByRole('heading', { name: 'Tools', level: 1 }).waitFor();
  await page.goBack();
  await expect.poll(() => field.inputValue()).toBe('a long story');
  await page.getByRole('list', { name: 'Attached files' }).getByText('dropped.txt').waitFor();
});

test('a message that can not be sent stays, with the reason, and can be sent again', async () => {
  const page = await world.open();
  await page.getByLabel('Message', { exact: true }).fill(`Dear agent ${'x'.repeat(1_100_000)}`);
  await page.getByRole('button', { name: 'Send' }).click();
  const said = page.getByRole('article', { name: 'You' });
  await said.getByText(/Not sent: .*too large/).waitFor();
  await said.getByRole('button', { name: 'Remove' }).click();
  await page.getByText('What shall the agent do?').waitFor();

  await page.route('**/api/artifacts?*', (route) => route.fulfill({ status: 413, body: 'no room' }));
  await page.locator('.attach input').setInputFiles([textFile('big.txt')]);
  await say(page, 'look');
  await said.getByText(/Not sent: /).waitFor();
  await checkAccess(page); // of a short message: to look through a million letters takes axe half a minute
  await page.unroute('**/api/artifacts?*');
  await said.getByRole('button', { name: 'Send again' }).click();
  await lastReply(page).getByText('look').waitFor();
  await expect.poll(() => said.count()).toBe(1);
});

test('two pages of one chat stay in step', async () => {
  const page = await world.open();
  await say(page, 'first');
  await lastReply(page).getByText('first').waitFor();
  const other = await world.another(page, new URL(page.url()).hash);
  await lastReply(other).getByText('first').waitFor();
  await say(other, 'second');
  await lastReply(page).getByText('second').waitFor();
  await expect.poll(() => page.getByRole('article', { name: 'You' }).count()).toBe(2);
});

test('a message is edited and asked again, an answer is made anew, a chat is found, renamed, exported and deleted', async () => {
  const page = await world.open();
  await say(page, 'apples');
  await lastReply(page).getByText('apples').waitFor();
  await page.getByRole('button', { name: 'Edit and ask again' }).click();
  await page.getByLabel('Edit the message').fill('pears and plums');
  await page.getByRole('button', { name: 'Ask again', exact: true }).click();
  await lastReply(page).getByText('pears and plums').waitFor();
  await expect.poll(() => page.getByRole('log').getByText('apples').count()).toBe(0);
  await page.getByRole('button', { name: 'Answer again' }).click();
  await page.getByRole('button', { name: 'Answer again' }).waitFor();
  await expect.poll(() => page.getByRole('article').count()).toBe(2);
  await page.getByLabel('More for this chat').click();
  await page.getByRole('button', { name: 'Rename' }).click();
  await page.getByLabel('Name of the chat').fill('Fruit');
  await page.keyboard.press('Enter');
  await page.getByRole('heading', { name: 'Fruit' }).waitFor();
  await page.getByLabel('Search in all chats').fill('plums');
  const found = page.getByRole('navigation', { name: 'Chats' }).getByRole('link', { name: /Fruit/ });
  await found.waitFor();
  await page.getByLabel('More for this chat').click();
  const [file] = await Promise.all([
    page.waitForEvent('download'),
    page.getByRole('button', { name: 'Export' }).click(),
  ]);
  expect(file.suggestedFilename()).toBe('Fruit.md');
  await page.getByLabel('More for this chat').click();
  await page.getByRole('button', { name: 'Delete' }).click();
  await page.getByRole('dialog').getByRole('button', { name: 'Delete' }).click();
  await page.getByText('What shall the agent do?').waitFor();
  await page.getByRole('button', { name: 'Undo' }).click();
  await lastReply(page).getByText('pears and plums').waitFor();
});

test('an attached image is shown, and is part of the message after a reload and after an edit', async () => {
  const page = await world.open();
  await page.locator('.attach input').setInputFiles({ name: 'dot.png', mimeType: 'image/png', buffer: PIXEL });
  await say(page, 'look');
  await lastReply(page).getByText('look').waitFor();
  await page.reload();
  const image = page.getByRole('article', { name: 'You' }).getByRole('img', { name: 'dot.png' });
  await expect.poll(() => image.evaluate((element) => (element as HTMLImageElement).naturalWidth)).toBe(10);
  await page.getByRole('button', { name: 'Edit and ask again' }).click();
  await page.getByLabel('Edit the message').fill('look again');
  await page.getByRole('button', { name: 'Ask again', exact: true }).click();
  await lastReply(page).getByText('look again').waitFor();
  await page.reload();
  await lastReply(page).getByText('look again').waitFor();
  await expect.poll(() => image.evaluate((element) => (element as HTMLImageElement).naturalWidth)).toBe(10);
});
