// Pictures of pages with more in them than their maker thinks of: long names, long lines, long texts.
import { Device } from 'handspan/device';
import { expect, onTestFinished, test } from 'vitest';
import { ModelServer } from './support/model-server.ts';
import { photograph, say, World } from './support/world.ts';

const world = new World('--model', '');
const WORDS = 'Donaudampfschifffahrtsgesellschaftskapitän '.repeat(6);
const LINE = 'x'.repeat(300);
const TEXT = `# A heading\n\n${WORDS}\n\n- one\n- two with \`${LINE}\`\n\n| a | ${'wide '.repeat(30)} |\n|---|---|\n| 1 | ${LINE} |\n\n\`\`\`\n${LINE}\n\`\`\`\n\n> ${WORDS}\n`;

test('long contents', async () => {
  const model = await ModelServer.start();
  const about = {
    api: 'openai-chat',
    model: `a/very-long-model-name-${'x'.repeat(60)}`,
    base_url: model.url,
    key: 'k',
  };
  await world.api('PUT', '/api/models/long', about);
  await world.api('POST', '/api/models/use', { model: 'long' });
  const { url, token } = world.gateway;
  const device = new Device({ url, token, label: 'a_very_long_label_24char' });
  onTestFinished(() => device.close());
  const name = 'a_tool_with_a_very_long_name_sixty';
  device.tool({ name, description: WORDS.repeat(4), handler: () => ({ [LINE]: LINE, list: [TEXT] }) });
  void device.run();
  await expect.poll(() => device.state.status).toBe('online');
  await world.api('POST', '/api/agents', { name: WORDS.slice(0, 90).trim(), description: WORDS, instructions: TEXT });

  const page = await world.open();
  await say(page, WORDS + LINE);
  const first = await model.next();
  first.text(TEXT);
  first.call([`a_very_long_label_24char__${name}`, { [LINE]: TEXT }], ['read_file', { path: LINE }]);
  const second = await model.next();
  second.text(TEXT);
  second.end();
  await page.getByRole('button', { name: 'Answer again' }).waitFor();
  await photograph(page, 'long-chat-end');
  await page.locator('.call-line').first().click();
  await page.locator('.call').first().scrollIntoViewIfNeeded();
  await photograph(page, 'long-chat');
  for (const id of ['tools', 'agents', 'devices', 'journal', 'models', 'questions', 'skills']) {
    await page.goto(`${url}/#/${id}`);
    await page.getByRole('heading', { level: 1 }).waitFor();
    await page.waitForTimeout(1000); // its lists
    await photograph(page, `long-${id}`);
    const widths = await page.evaluate(() => [document.documentElement.scrollWidth, innerWidth]);
    expect(widths[0], `${id} is not wider than the screen`).toBe(widths[1]);
  }
  await page.goto(`${url}/#/tools/a_very_long_label_24char__${name}`);
  await page.getByRole('heading', { name: 'Try it' }).waitFor();
  await photograph(page, 'long-tool');
});
