import { setTimeout as pause } from 'node:timers/promises';
import { Device } from 'handspan/device';
import type { Page } from 'playwright-core';
import { expect, onTestFinished, test } from 'vitest';
import { ModelServer } from './support/model-server.ts';
import { checkAccess, PHONE, photograph, say, World } from './support/world.ts';

const world = new World('--model', '', '--set', 'budget.day=0.9'); // 'staged', a model of this computer, is free

/** A model that replies as the test says; the gateway uses it from now on. */
async function useModel(name = 'staged'): Promise<ModelServer> {
  const model = await ModelServer.start();
  await world.api('PUT', '/api/models/staged', {
    api: 'openai-chat',
    model: name,
    base_url: model.url,
    key: 'a-test-key',
  });
  await world.api('POST', '/api/models/use', { model: 'staged' });
  return model;
}

function lastReply(page: Page) {
  return page.getByRole('article', { name: 'Agent' }).last();
}

test('a reload in the middle of a reply shows what has arrived, and the rest as it comes', async () => {
  const model = await useModel();
  const page = await world.open();
  await say(page, 'tell me');
  const reply = await model.next();
  reply.text('The first half');
  await lastReply(page).getByText('The first half').waitFor();
  await page.reload();
  await lastReply(page).getByText('The first half').waitFor();
  reply.text(', and the second half.');
  await lastReply(page).getByText('The first half, and the second half.').waitFor();
  reply.end();
  await page.getByRole('button', { name: 'Answer again' }).waitFor();
  await expect.poll(() => page.getByRole('article', { name: 'Agent' }).count()).toBe(1);
});

test('how a turn ended is there after a reload and the next message, and it can begin again', async () => {
  const model = await useModel();
  const page = await world.open();
  model.refuses = true;
  await say(page, 'tell me');
  const refused = page.getByText('refuses the key');
  await refused.waitFor();
  await page.reload();
  await refused.waitFor();
  expect(await page.getByText('Untitled').count()).toBe(0);
  model.refuses = false;
  await page.getByRole('button', { name: 'Try again' }).click();
  const reply = await model.next();
  expect(await refused.count()).toBe(0);
  reply.text('Once upon');
  await lastReply(page).getByText('Once upon').waitFor();
  reply.breakOff();
  const broken = page.getByText('The answer broke off');
  await broken.waitFor();
  await page.reload();
  await broken.waitFor();
  await lastReply(page).getByText('Once upon').waitFor();
  await say(page, 'go on');
  (await model.next()).end();
  await page.getByRole('button', { name: 'Answer again' }).waitFor();
  expect(await broken.count()).toBe(1);
});

test('a request that waits for money says so, a spent budget asks for more, and the page shows what there is', async () => {
  const model = await useModel('gpt-5.5'); // its price is known
  const page = await world.open();
  await say(page, 'a long story');
  (await model.next()).end('stop', { input: 1, output: 10_000 }); // so the next ones may cost as much
  await page.getByRole('button', { name: 'Answer again' }).waitFor();
  await say(page, 'another one');
  const first = await model.next();
  const other = await world.open();
  await say(other, 'and one for me');
  const waits = other.getByText('The rest of the budget is reserved by requests that run');
  await waits.waitFor();
  first.end('stop', { input: 1, output: 1 });
  const second = await model.next();
  second.text('Once upon a time.');
  await lastReply(other).getByText('Once upon a time.').waitFor();
  expect(await waits.count()).toBe(0);
  second.end('stop', { input: 1, output: 20_000 });
  await other.getByRole('button', { name: 'Answer again' }).waitFor();
  await say(other, 'the last one'); // the budget is spent
  const question = other.getByRole('region', { name: 'General asks you' });
  await question.getByRole('button', { name: 'Add $10 today' }).waitFor();
  await question.getByRole('button', { name: 'No', exact: true }).waitFor();
  await question.getByRole('button', { name: 'Add $2 today' }).click();
  (await model.next()).end('stop', { input: 1, output: 1 });
  await page.goto(`${world.gateway.url}/#/journal/usage`);
  await page.getByRole('region', { name: 'Budgets' }).getByText('$2.00').waitFor();
});

test('a link whose address comes last is a link', async () => {
  const model = await useModel();
  const page = await world.open();
  await say(page, 'where is it?');
  const reply = await model.next();
  reply.text('See [the docs][1].\n\nThat is all.\n\n');
  await lastReply(page).getByText('That is all.').waitFor();
  reply.text('[1]: https://example.com/docs\n');
  reply.end();
  await lastReply(page).getByRole('link', { name: 'the docs' }).waitFor();
});

test('a call that the model is still writing has its name and what there is of its arguments', async () => {
  const model = await useModel();
  const page = await world.open();
  await say(page, 'write two files');
  const reply = await model.next();
  reply.write({ name: 'read_file' });
  reply.write({ arguments: '{"path": ' });
  reply.write({ name: 'list_directory' });
  const [first, second] = [page.locator('.call').first(), page.locator('.call').last()];
  await expect.poll(() => second.textContent()).toMatch(/list_directory.*preparing/);
  await expect.poll(() => first.textContent()).toMatch(/read_file.*preparing/);
  await first.getByRole('button', { name: /read_file/ }).click();
  await first.getByText('{"path": ').waitFor();
  reply.write({ arguments: '{"path": "."}' });
  await expect.poll(() => second.textContent()).toMatch(/list_directory.*preparing/);
  await page.getByRole('button', { name: 'Stop' }).click();
  await page.getByText('Stopped.').waitFor();
});

test('a chat says what it has used and cost, and nothing where the model did not report it', async () => {
  const model = await useModel('gpt-4o');
  const page = await world.open();
  await say(page, 'how much?');
  const reply = await model.next();
  reply.text('A little.');
  reply.end('stop', { input: 1000, output: 200 });
  await page.getByText('1,000 tokens in, 200 out').waitFor();
  await page.getByText('$0.0045').waitFor();
  await page.getByRole('link', { name: 'New chat', exact: true }).click();
  await page.getByText('What shall the agent do?').waitFor();
  expect(await page.getByText('tokens in').count()).toBe(0);
});

test('how full the context is comes with each reply, and opens with what fills it; a summary stays as a line', async () => {
  const model = await useModel('gpt-4o'); // it reads 128,000 tokens
  const page = await world.open();
  for (const [text, input] of [
    ['Tell me about roses.', 63_000],
    ['And lilies?', 114_200],
  ] as const) {
    await say(page, text);
    const reply = await model.next();
    reply.text('They have no thorns, most of them.');
    reply.end('stop', { input, output: 1000 });
    await page.getByText(input === 63_000 ? '50 %' : '90 %', { exact: false }).waitFor();
  }
  await page.getByRole('button', { name: 'Answer again' }).waitFor();
  const meter = page.locator('.context');
  await meter.locator('summary').click();
  await meter.getByText('115,200 of 128,000 tokens of context are used.').waitFor();
  const parts = meter.getByRole('definition');
  await expect.poll(() => parts.count()).toBeGreaterThanOrEqual(3);
  expect(await meter.getByRole('term').allTextContents()).toEqual(['Instructions', 'Tools', 'Messages']);
  const counts = (await parts.allTextContents()).map((text) => Number(text.replace(',', '')));
  expect(Math.abs(counts.reduce((sum, one) => sum + one, 0) - 115_200)).toBeLessThan(10);
  await checkAccess(page);
  await photograph(page, 'context');
  const session = decodeURIComponent(page.url().split('/').at(-1) as string);
  const done = world.api('POST', `/api/sessions/${session}/compact`, {});
  const summary = await model.next();
  const sections = ['Goal', 'Decisions', 'Facts', 'Done', 'Open'];
  summary.text(sections.map((title) => `# ${title}\n- ${title} of the roses`).join('\n'));
  summary.end('stop', { input: 9000, output: 20 });
  expect(await done).toMatchObject({ summarized: 2, note: '' });
  for (const isAgain of [false, true]) {
    if (isAgain) await page.reload();
    const line = page.locator('details', { hasText: 'What stands above, as the model reads it: a summary' });
    await line.locator('summary').click();
    await line.getByText('Goal of the roses').waitFor();
  }
  await checkAccess(page);
});

test('200 events a second lose nothing, while 32 tools run and report', async () => {
  const model = await useModel();
  const { url, token } = world.gateway;
  const device = new Device({ url, token, label: 'rig', concurrency: 32 });
  onTestFinished(() => device.close());
  let release = () => {};
  const released = new Promise<void>((resolve) => {
    release = resolve;
  });
  const reports: ((value: string) => void)[] = [];
  device.tool({
    name: 'work',
    description: 'Works until it is told to end.',
    annotations: { read_only: true },
    parameters: { type: 'object', properties: { number: { type: 'integer' } } },
    handler: async ({ number }: { number: number }, { progress }) => {
      reports[number] = progress;
      await released;
      return `ended ${number}`;
    },
  });
  void device.run();
  await expect.poll(() => device.state.status).toBe('online');

  const page = await world.open();
  await page.getByRole('button', { name: 'Compact' }).click();
  await say(page, 'work');
  const count = 32;
  const first = await model.next();
  const words = Array.from({ length: 400 }, (_, number) => `w${number} `);
  for (const word of words) {
    first.text(word);
    await pause(5);
  }
  const shown = async () => (await page.locator('.reply').first().locator('.markdown').textContent())?.trim();
  await expect.poll(shown).toBe(words.join('').trim());
  first.call(...Array.from({ length: count }, (_, number): [string, object] => ['rig__work', { number }]));
  await expect.poll(() => reports.filter(Boolean).length).toBe(count);
  const calls = page.locator('.call');
  await expect.poll(() => calls.count()).toBe(count);
  for (let step = 0; step < 4; step += 1) {
    for (const report of reports) report(`step ${step}`);
    await pause(5);
  }
  for (const report of reports) report('the last step');
  await expect.poll(() => page.locator('.call-progress', { hasText: 'the last step' }).count()).toBe(count);
  release();
  const second = await model.next();
  expect(second.request.messages.filter(({ role }) => role === 'tool').length).toBe(count);
  await expect.poll(() => page.locator('.call.success').count()).toBe(count);
  second.text('All have ended.');
  second.end();
  await lastReply(page).getByText('All have ended.').waitFor();
  await page.reload();
  await expect.poll(() => page.locator('.call.success').count()).toBe(count);
  await expect.poll(shown).toBe(words.join('').trim());
});

test('a reply stays in sight when it can not be read again, and is there once when it can', async () => {
  world.expectErrors(/ERR_FAILED/);
  const model = await useModel();
  const page = await world.open();
  await say(page, 'tell me');
  const reply = await model.next();
  reply.text('All of it.');
  await lastReply(page).getByText('All of it.').waitFor();
  await page.route('**/messages?*', (route) => route.abort());
  reply.end();
  await page.getByText('did not answer').waitFor();
  await lastReply(page).getByText('All of it.').waitFor();
  await page.unroute('**/messages?*');
  await say(page, 'and now?');
  const second = await model.next();
  second.text('The same.');
  second.end();
  await lastReply(page).getByText('The same.').waitFor();
  await page.getByText('did not answer').waitFor({ state: 'detached' });
  await expect.poll(() => page.getByRole('article', { name: 'Agent' }).count()).toBe(2);
});

test('a message that was written without a link arrives, also when another agent is chosen meanwhile', async () => {
  const model = await useModel();
  await world.api('POST', '/api/agents', { name: 'Other' });
  const page = await world.open();
  await page.getByText('What shall the agent do?').waitFor();
  await page.getByRole('option', { name: 'Other' }).waitFor({ state: 'attached' });
  await page.context().setOffline(true);
  world.expectErrors(/ERR_INTERNET_DISCONNECTED|WebSocket/);
  await page.evaluate(() => dispatchEvent(new Event('offline')));
  await say(page, 'are you there?');
  await page.getByRole('combobox', { name: 'Agent' }).selectOption('Other');
  await page.context().setOffline(false);
  const reply = await model.next();
  reply.text('Yes.');
  await lastReply(page).getByText('Yes.').waitFor();
  await page.getByRole('combobox', { name: 'Agent' }).selectOption('General');
  reply.text(' Always.');
  reply.end();
  await lastReply(page).getByText('Yes. Always.').waitFor();
  await expect.poll(() => page.getByRole('article').count()).toBe(2);
  expect(await page.getByText('closed by this program').count()).toBe(0);
});

test('an answer that is made anew shows each of its rounds once while it arrives', async () => {
  const model = await useModel();
  const page = await world.open();
  await say(page, 'what time is it?');
  for (const again of [false, true]) {
    if (again) await page.getByRole('button', { name: 'Answer again' }).click();
    const first = await model.next();
    first.text('I look.');
    first.call(['get_current_time', {}]);
    const second = await model.next();
    second.text('Late.');
    await lastReply(page).getByText('Late.').waitFor();
    await expect.poll(() => page.locator('.call.success').count()).toBe(1);
    await expect.poll(() => page.getByText('I look.').count()).toBe(1);
    second.end();
    await page.getByRole('button', { name: 'Answer again' }).waitFor();
  }
});

test('a photo of the phone is shown in the chat, and reaches the model as an image', async () => {
  const model = await useModel();
  const { code } = await world.api<{ code: string }>('POST', '/api/pairing', { scopes: ['device'] });
  const phone = await (await world.context({ viewport: PHONE, permissions: ['camera'] })).newPage();
  await phone.goto(`${world.gateway.url}/device#code=${code}`);
  await phone.getByText('Connected', { exact: true }).waitFor();
  const page = await world.open();
  await say(page, 'take a photo');
  (await model.next()).call(['browser__camera', {}]);
  await phone.getByRole('button', { name: 'Allow once' }).click();
  const reply = await model.next();
  expect(JSON.stringify(reply.request.messages.slice(2))).toContain('"image_url":{"url":"data:image/');
  reply.text('A green field.');
  reply.end();
  await lastReply(page).getByText('A green field.').waitFor();
  const photo = page.locator('.call .files img');
  await expect.poll(() => photo.evaluate((image) => (image as HTMLImageElement).naturalWidth)).toBeGreaterThan(100);
});

test('a gateway that is killed in the middle is back: chat and phone heal by themselves', async () => {
  const model = await useModel();
  const { code } = await world.api<{ code: string }>('POST', '/api/pairing', { scopes: ['device'] });
  const phone = await (await world.context({ viewport: PHONE })).newPage();
  await phone.goto(`${world.gateway.url}/device#code=${code}`);
  await phone.getByText('Connected', { exact: true }).waitFor();
  const page = await world.open();
  await say(page, 'hello');
  const reply = await model.next();
  reply.text('Hello to you.');
  reply.end();
  await page.getByRole('button', { name: 'Answer again' }).waitFor();
  world.expectErrors(
    /ERR_CONNECTION_|ERR_EMPTY_RESPONSE|ERR_INCOMPLETE_CHUNKED_ENCODING|ERR_CONTENT_LENGTH_MISMATCH|WebSocket/,
  );
  await world.gateway.kill();
  await page.getByText('reconnecting').waitFor();
  await page.getByTitle('No live updates').first().waitFor();
  await phone.getByText('Reconnecting…').waitFor();
  await world.gateway.restart();
  await phone.getByText('Connected', { exact: true }).waitFor();
  await page.getByText('reconnecting').waitFor({ state: 'hidden' });
  await page.getByTitle('Live updates arrive').first().waitFor();
  await say(page, 'are you there?');
  const again = await model.next();
  again.text('Yes.');
  again.end();
  await lastReply(page).getByText('Yes.').waitFor();
});
