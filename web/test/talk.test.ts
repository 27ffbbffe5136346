// The transcript and the composer of the chat: what a person reads, finds and chooses there.
import { fileURLToPath } from 'node:url';
import { Lexer } from 'marked';
import type { Page } from 'playwright-core';
import { expect, test } from 'vitest';
import { GrowingText } from '../src/parts/markdown-lexer.ts';
import { checkAccess, PHONE, photograph, say, World } from './support/world.ts';

const world = new World('--set', 'agents={"General": {"may_ask": ["Careful"]}, "Careful": {"mode": "ask_always"}}');
const MCP_SERVER = fileURLToPath(new URL('../../tests/sources/mcp/server.py', import.meta.url));
const PYTHON = fileURLToPath(new URL('../../.venv/bin/python', import.meta.url));
const PIXEL = Buffer.from(
  'iVBORw0KGgoAAAANSUhEUgAAAAoAAAAKCAYAAACNMs+9AAAAFUlEQVR42mNk+M9Qz0AEYBxVSF+FABJADveWkH6oAAAAAElFTkSuQmCC',
  'base64',
);

function field(page: Page) {
  return page.getByLabel('Message', { exact: true });
}

function lastReply(page: Page) {
  return page.getByRole('article', { name: 'Agent' }).last();
}

async function answered(page: Page): Promise<void> {
  await page.getByRole('button', { name: 'Answer again' }).waitFor();
}

function isAtEnd(page: Page): Promise<boolean> {
  return page
    .locator('.talk-scroll')
    .evaluate(({ scrollHeight, scrollTop, clientHeight }) => scrollHeight - scrollTop - clientHeight < 2);
}

test('who has scrolled up is led to the newest by a button, and by what they send', async () => {
  const page = await world.open();
  await say(page, Array.from({ length: 60 }, (_, line) => `line ${line}`).join('\n'));
  await answered(page);
  await page.locator('.talk-scroll').hover();
  await page.mouse.wheel(0, -500);
  const newest = page.getByRole('button', { name: 'Newest' });
  await newest.waitFor();
  await checkAccess(page);
  await newest.click();
  await newest.waitFor({ state: 'detached' });
  await expect.poll(() => isAtEnd(page)).toBe(true);
  await page.mouse.wheel(0, -500);
  await newest.waitFor();
  await say(page, 'a short one');
  await answered(page);
  await expect.poll(() => isAtEnd(page)).toBe(true);
  expect(await newest.count()).toBe(0);
});

test('code has its language and colours, tables keep numbers whole, tasks have boxes, formulas are drawn', async () => {
  const page = await world.open('', { viewport: PHONE });
  const wide = '| Name of a thing | Score | Count of all things | Last |\n|---|---:|---|:---:|\n';
  const text = `${wide}| Alpha | 4.2/5 | 1000/000 | no |\n\n\`\`\`python\ndef f(x):\n    return "${'y'.repeat(90)}"\n\`\`\`\n\n`;
  await say(page, `${text}\n- [x] bought\n- [ ] cooked\n\nIt is $e^{i\\pi}+1=0$ for $5 or $6.\n\n$$\\frac{1}{2}$$`);
  const reply = lastReply(page);
  await reply.locator('.hljs-keyword', { hasText: 'def' }).waitFor();
  await reply.getByText('python', { exact: true }).waitFor();
  await reply.getByRole('img', { name: 'done', exact: true }).waitFor();
  await reply.getByRole('img', { name: 'not done' }).waitFor();
  await expect.poll(() => reply.locator('math').count()).toBe(2);
  await reply.getByText('for $5 or $6').waitFor();
  const cell = reply.getByRole('cell', { name: '4.2/5' });
  expect(await cell.evaluate((element) => getComputedStyle(element).textAlign)).toMatch(/right$/);
  const lines = (name: string) =>
    reply.getByRole('cell', { name }).evaluate((element) => {
      const range = document.createRange();
      range.selectNodeContents(element);
      return range.getClientRects().length;
    });
  expect([await lines('4.2/5'), await lines('1000/000')]).toEqual([1, 1]);
  expect(await page.evaluate(() => document.documentElement.scrollWidth)).toBe(PHONE.width);
  const code = reply.locator('pre');
  const isWide = () => code.evaluate((element) => element.scrollWidth > element.clientWidth);
  expect(await isWide()).toBe(true);
  await reply.getByRole('button', { name: 'Wrap long lines' }).click();
  expect(await isWide()).toBe(false);
  for (const colorScheme of ['light', 'dark'] as const) {
    await page.emulateMedia({ colorScheme });
    await checkAccess(page); // the colours of code, too
  }
  await page.setViewportSize({ width: 1280, height: 800 });
  await photograph(page, 'answer');
});

test('versions of a message and of an answer are one click apart, and the page goes with what another page chose', async () => {
  const page = await world.open();
  await say(page, 'apples');
  await answered(page);
  await page.getByRole('button', { name: 'Edit and ask again' }).click();
  await page.getByLabel('Edit the message').fill('pears');
  await page.keyboard.press('Enter');
  await lastReply(page).getByText('pears').waitFor();
  await answered(page);
  const person = page.getByRole('article', { name: 'You' });
  await person.getByText('2/2').waitFor();
  await page.getByRole('button', { name: 'Answer again' }).click();
  await lastReply(page).getByText('2/2').waitFor();
  await checkAccess(page);
  const other = await world.another(page, new URL(page.url()).hash);
  await lastReply(other).getByText('2/2').waitFor();
  await person.getByRole('button', { name: 'The version before' }).click();
  await lastReply(page).getByText('apples').waitFor();
  await person.getByText('1/2').waitFor();
  await lastReply(other).getByText('apples').waitFor();
  await person.getByRole('button', { name: 'The next version' }).click();
  await lastReply(page).getByText('pears').waitFor();
  await lastReply(page).getByText('2/2').waitFor();
});

test('a page that reads of a turn that runs, and hears nothing of it, learns that it has ended', async () => {
  const page = await world.open();
  await say(page, 'hello');
  await answered(page);
  let isStale = true;
  await page.route('**/state', async (route) => {
    if (!isStale) return route.continue();
    const { session_id } = (await (await route.fetch()).json()) as { session_id: string };
    return route.fulfill({ json: { session_id, state: 'running' } });
  });
  await page.reload();
  await page.getByRole('button', { name: 'Stop' }).waitFor();
  isStale = false; // from now on the gateway tells that the turn has ended
  await answered(page);
  await expect.poll(() => page.getByRole('button', { name: 'Stop' }).count()).toBe(0);
});

test('a draft is there after a reload, each chat has its own, and an address of no chat says so', async () => {
  const page = await world.open();
  await field(page).fill('half a thought');
  await page.reload();
  await expect.poll(() => field(page).inputValue()).toBe('half a thought');
  await say(page, 'first');
  await answered(page);
  await field(page).fill('for the first');
  await page.getByRole('link', { name: 'New chat', exact: true }).click();
  await page.getByText('What shall the agent do?').waitFor();
  expect(await field(page).inputValue()).toBe('');
  await page.getByRole('link', { name: 'Tools', exact: true }).click();
  await page.getByRole('link', { name: 'Chat', exact: true }).click(); // the last one that was open, not a new one
  await expect.poll(() => field(page).inputValue()).toBe('for the first');
  await lastReply(page).getByText('first').waitFor();
  await page.goto(`${world.gateway.url}/#/chat/0123456789abcdef`);
  await page.getByText('There is no such chat').waitFor();
  await checkAccess(page);
  await page.getByRole('link', { name: 'Begin a new chat' }).click();
  await page.getByText('What shall the agent do?').waitFor();
});

test('the field offers commands and skills after a slash, tools and artifacts after an @, and Up edits what was said', async () => {
  const page = await world.open();
  await say(page, 'hello');
  await answered(page);
  const list = page.getByRole('listbox', { name: 'Suggestions' });
  await field(page).pressSequentially('/');
  await list.getByRole('option', { name: /summarise-file/ }).waitFor();
  await checkAccess(page);
  await photograph(page, 'commands');
  await field(page).pressSequentially('det');
  await field(page).press('Enter');
  await page.getByRole('button', { name: 'Detailed' }).waitFor();
  expect(await field(page).inputValue()).toBe('');
  await field(page).pressSequentially('call @current');
  await list.getByRole('option', { name: /get_current_time/ }).click();
  expect(await field(page).inputValue()).toBe('call get_current_time ');
  await field(page).press('Enter');
  await page.locator('.call.success').waitFor();
  await answered(page);
  await field(page).press('ArrowUp');
  expect(await page.getByLabel('Edit the message').inputValue()).toContain('get_current_time');
  await page.keyboard.press('Escape');
  await page.getByRole('button', { name: 'Keys', exact: true }).click();
  await page.getByRole('dialog', { name: 'Keys' }).getByText('Edit the last message').waitFor();
  await checkAccess(page);
});

test('files of the workspace are offered folder by folder, and prompts of MCP servers beside skills', async () => {
  const page = await world.open();
  await world.api('POST', '/api/tools/write_file/call', { args: { path: 'plans/2026/may.md', content: 'sow' } });
  await world.api('POST', '/api/tools/write_file/call', { args: { path: 'plans/to do.md', content: 'mow' } });
  const list = page.getByRole('listbox', { name: 'Suggestions' });
  await field(page).pressSequentially('read @pla');
  await list.getByRole('option', { name: 'plans/ folder of the workspace' }).waitFor();
  await field(page).press('Enter');
  await list.getByRole('option', { name: 'plans/to do.md file of the workspace' }).waitFor();
  expect(await field(page).inputValue()).toBe('read @plans/');
  await checkAccess(page);
  await photograph(page, 'files');
  await field(page).press('ArrowDown');
  await field(page).press('Enter');
  expect(await field(page).inputValue()).toBe('read "plans/to do.md" ');
  await field(page).pressSequentially('and @plans/2026/m');
  await list.getByRole('option', { name: /may\.md/ }).click();
  expect(await field(page).inputValue()).toBe('read "plans/to do.md" and plans/2026/may.md ');
  await field(page).fill('');
  const args = ['-I', '-S', MCP_SERVER, '--prompts'];
  await world.api('PUT', '/api/mcp/demo', { command: PYTHON, args });
  await world.api('POST', '/api/mcp/demo/test');
  await field(page).pressSequentially('/rev');
  await list.getByRole('option', { name: 'demo: review Review code.' }).click();
  expect(await field(page).inputValue()).toBe('Use the prompt review of demo with path = ');
});

test('an agent that is chosen in mid-chat is a line in the transcript, also after a reload', async () => {
  const page = await world.open();
  await say(page, 'hello');
  await answered(page);
  await page.getByRole('combobox', { name: 'Agent' }).selectOption('Careful');
  await say(page, 'and you?');
  const line = page.getByText('From here on: Careful', { exact: true });
  await line.waitFor();
  await answered(page);
  await page.reload();
  await line.waitFor();
  await say(page, 'still you?');
  await lastReply(page).getByText('still you?').waitFor();
  await answered(page);
  expect(await page.getByText('From here on').count()).toBe(1);
});

test('what is attached can be seen before it is sent, pasted too, and is shown large', async () => {
  const page = await world.open();
  await page.locator('.attach input').setInputFiles({ name: 'dot.png', mimeType: 'image/png', buffer: PIXEL });
  await page.getByRole('button', { name: 'Show dot.png large' }).click();
  const dialog = page.getByRole('dialog', { name: 'dot.png' });
  await dialog.getByRole('img', { name: 'dot.png' }).waitFor();
  await checkAccess(page);
  await dialog.getByRole('button', { name: 'Close' }).click();
  await field(page).evaluate((element) => {
    const clipboardData = new DataTransfer();
    clipboardData.items.add(new File(['x'], 'pasted.txt', { type: 'text/plain' }));
    element.dispatchEvent(new ClipboardEvent('paste', { clipboardData, bubbles: true, cancelable: true }));
  });
  await page.getByRole('list', { name: 'Attached files' }).getByText('pasted.txt').waitFor();
  await say(page, 'look');
  await answered(page);
  await page.getByRole('article', { name: 'You' }).getByRole('button', { name: 'dot.png' }).click();
  await dialog.getByRole('img', { name: 'dot.png' }).waitFor();
});

test('on a phone a question comes from below, and stays under its call when it is put away', async () => {
  const page = await world.open('', { viewport: PHONE });
  await page.getByRole('combobox', { name: 'Agent' }).selectOption('Careful');
  await say(page, 'call exec_shell {"command": "echo it ran"}\nthen\n{results}');
  const sheet = page.getByRole('dialog', { name: 'Careful wants to use exec_shell' });
  await sheet.getByText('echo it ran').waitFor();
  const box = (await sheet.boundingBox()) as DOMRect;
  expect([Math.round(box.width), Math.round(box.y + box.height)]).toEqual([PHONE.width, PHONE.height]);
  await checkAccess(page);
  await photograph(page, 'sheet');
  await sheet.getByRole('button', { name: 'Close' }).click();
  const card = page.locator('.call').getByRole('region', { name: 'Careful wants to use exec_shell' });
  await card.getByRole('button', { name: 'Allow once' }).click();
  await lastReply(page).locator('.markdown').getByText('it ran').waitFor();
});

test('at twice the size nothing is cut off, and a page that runs from right to left begins at the right', async () => {
  const page = await world.open('', { viewport: { width: 640, height: 400 } }); // a small screen at 200 %
  await page.getByRole('combobox', { name: 'Agent' }).selectOption('Careful');
  await say(page, 'call write_file {"path": "a.txt", "content": "مرحبا\\nthen"}');
  const card = page.getByRole('region', { name: 'Careful wants to use write_file' });
  const sheet = page.getByRole('dialog', { name: 'Careful wants to use write_file' });
  await sheet.getByLabel('Close').click();
  for (const direction of ['ltr', 'rtl']) {
    await page.evaluate((dir) => {
      document.documentElement.dir = dir;
    }, direction);
    expect(await page.evaluate(() => document.documentElement.scrollWidth)).toBe(640);
    const button = card.getByRole('button', { name: 'Allow once' });
    await button.scrollIntoViewIfNeeded();
    const { x, width } = (await button.boundingBox()) as DOMRect;
    expect([x >= 0, x + width <= 640]).toEqual([true, true]);
    await checkAccess(page);
  }
  await card.getByRole('button', { name: 'Deny', exact: true }).click();
  await page.locator('.call.error').waitFor();
});

test('each message has its time, and a line stands where the day changes', async () => {
  const page = await world.open();
  await say(page, 'said the day before');
  await answered(page);
  expect(await page.getByRole('note').count()).toBe(0); // all of it is of today
  const clock = page.getByRole('article', { name: 'You' }).locator('time');
  expect(await clock.textContent()).toMatch(/^\d{1,2}:\d{2}/);
  expect(await clock.getAttribute('title')).toContain(String(new Date().getFullYear()));
  await page.getByRole('article', { name: 'You' }).hover();
  await expect.poll(() => clock.evaluate((element) => getComputedStyle(element).opacity)).toBe('1');
  // The gateway has no way to say something yesterday: so the first turn is moved there.
  await page.route(/\/messages\?/, async (route) => {
    const list = (await (await route.fetch()).json()) as { messages: { seq: number; at: string }[] };
    for (const one of list.messages) {
      const days = one.seq <= 2 ? 1 : 0;
      one.at = new Date(Date.parse(one.at) - days * 86_400_000).toISOString();
    }
    await route.fulfill({ json: list });
  });
  await say(page, 'said today');
  await answered(page);
  await expect.poll(() => page.getByRole('note').allTextContents()).toEqual(['Yesterday', 'Today']);
  await checkAccess(page);
  await photograph(page, 'days');
});

test('a long chat is drawn from its end, step by step; long code in parts, which are one text', async () => {
  const page = await world.open();
  const code = Array.from({ length: 500 }, (_, line) => `line ${line} of the code`).join('\n');
  await say(page, `\`\`\`\n${code}\n\`\`\``);
  await answered(page);
  const pre = lastReply(page).locator('pre');
  expect(await pre.locator('span').count()).toBeGreaterThan(1);
  expect(await pre.textContent()).toBe(code);
  await page.route(/\/messages\?/, async (route) => {
    const list = (await (await route.fetch()).json()) as { messages: { seq: number }[] };
    const [one, other] = list.messages;
    const messages = Array.from({ length: 200 }, (_, index) => ({ ...(index % 2 ? other : one), seq: index + 1 }));
    await route.fulfill({ json: { ...list, messages: messages.map((each) => ({ ...each, id: `m${each.seq}` })) } });
  });
  await page.addInitScript(() => {
    const counts: number[] = [];
    Object.assign(globalThis, { counts });
    new MutationObserver(() => counts.push(document.querySelectorAll('article').length)).observe(document, {
      childList: true,
      subtree: true,
    });
  });
  await page.reload();
  await expect.poll(() => page.getByRole('article').count()).toBe(200);
  const counts = (await page.evaluate('counts')) as number[];
  expect(counts.find((count) => count > 0)).toBeLessThan(30);
  await expect.poll(() => isAtEnd(page)).toBe(true);
});

test('a text that arrives in pieces is read as the whole text is', async () => {
  const text = [
    '# Title\n\n- one\n- two\n\n  more of two\n- three\n\nA line with `code` and [a link][1].\n\n',
    '1. first\n\n   ```js\n   let x = 1;\n   ```\n2. second\n\n> quoted\nlazy\n\n| a | b |\n|---|--:|\n| 1 | 2 |\n\n',
    '```\nfence\n\nwith a gap\n```\n\nSetext\n===\n\n    indented\n\n$$x^2$$\n\n***\n\n',
  ];
  const whole = `${text.join('').repeat(12)}[1]: https://example.com/docs\n`;
  for (const step of [1, 7, 61, 1000]) {
    const growing = new GrowingText();
    let blocks = growing.read('');
    for (let at = step; at < whole.length + step; at += step) blocks = growing.read(whole.slice(0, at));
    const raw = blocks.parts.flat().map(({ type, raw: source }) => [type, source]);
    expect(raw).toEqual(new Lexer().lex(whole).map(({ type, raw: source }) => [type, source]));
    expect(blocks.links).toContain('example.com');
  }
});

test('what another agent does is folded into the call that asked it, with its question and a way to its chat', async () => {
  const page = await world.open();
  const task = 'call get_current_time\nthen\ncall list_directory\nthen\nAll is well.';
  await say(page, `call ask_agent ${JSON.stringify({ agent: 'Careful', task })}\nthen\nIt says {results}`);
  const asking = page.locator('.call').last();
  await page.getByRole('dialog').getByRole('button', { name: 'Allow once' }).click(); // the other agent asks
  await answered(page);
  await expect.poll(() => asking.textContent()).toMatch(/ask_agent.*done/);
  await asking.getByRole('button', { name: /ask_agent/ }).click();
  await checkAccess(page);
  await asking.getByRole('link', { name: 'What that agent does' }).click();
  await expect.poll(() => page.locator('.call').count()).toBe(2); // of the other chat: that of the asker has one
  await expect.poll(() => lastReply(page).textContent()).toMatch(/All is well/);
});
