// The pictures of the README, made by `make screenshots`. The model in them is scripted; gateway, phone and tools are real.
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import type { Page } from 'playwright-core';
import { afterAll, test } from 'vitest';
import { ModelServer } from './support/model-server.ts';
import { DESKTOP, openChromium, PHONE, say, World } from './support/world.ts';

const PICTURES = fileURLToPath(new URL('../../docs/pictures/', import.meta.url));
/** What the phone's camera sees. */
const DESK = `<body style="margin:0"><svg width="960" height="720" viewBox="0 0 96 72" xmlns="http://www.w3.org/2000/svg">
  <rect width="96" height="72" fill="#dfe8ea"/><rect y="46" width="96" height="26" fill="#b98b5e"/>
  <rect x="56" y="6" width="30" height="24" rx="1" fill="#f7fbfc"/><path d="M71 6v24M56 18h30" stroke="#c9d5d8"/>
  <path d="M28 44C16 40 10 26 14 16c8 3 13 14 14 26C28 28 30 14 40 8c4 12-2 26-10 34 8-10 16-14 24-12-4 10-14 14-22 14z" fill="#3f7d4e"/>
  <path d="M20 44h18l-3 18H23z" fill="#c8663f"/><path d="M19 42h20v5H19z" fill="#b5572f"/>
  <path d="M60 48h14v9a6 6 0 0 1-6 6h-2a6 6 0 0 1-6-6z" fill="#fff"/><path d="M74 50h3a3 3 0 0 1 0 7h-3" fill="none" stroke="#fff" stroke-width="2"/>
  <path d="M64 44c-2-3 2-4 0-7M69 44c-2-3 2-4 0-7" stroke="#fff" fill="none" stroke-linecap="round"/></svg></body>`;

const folder = mkdtempSync(join(tmpdir(), 'handspan-pictures-'));
afterAll(() => rmSync(folder, { recursive: true, force: true }));
process.env.FAKE_CAMERA = await drawDesk();
const world = new World('--model', '', '--set', 'agents={"General": {}, "Careful": {"mode": "ask_always"}}');

async function drawDesk(): Promise<string> {
  const browser = await openChromium();
  const page = await browser.newPage({ viewport: { width: 960, height: 720 } });
  await page.setContent(DESK);
  const file = join(folder, 'desk.mjpeg'); // a film of one picture
  writeFileSync(file, await page.screenshot({ type: 'jpeg', quality: 85 }));
  await browser.close();
  return file;
}

/** Keeps a picture of the page in the README's folder, small. */
async function keep(page: Page, name: string): Promise<void> {
  mkdirSync(PICTURES, { recursive: true });
  const session = await page.context().newCDPSession(page);
  const { data } = await session.send('Page.captureScreenshot', { format: 'webp', quality: 82 });
  writeFileSync(join(PICTURES, `${name}.webp`), Buffer.from(data, 'base64'));
}

test('the chat with a phone, an approval, the tools and the journal', async () => {
  const model = await ModelServer.start();
  const about = { api: 'openai-chat', model: 'scripted', base_url: model.url, key: 'k' };
  await world.api('PUT', '/api/models/scripted', about);
  await world.api('POST', '/api/models/use', { model: 'scripted' });
  const { code } = await world.api<{ code: string }>('POST', '/api/pairing', { scopes: ['device'] });
  const phone = await (await world.context({ viewport: PHONE, permissions: ['camera'] })).newPage();
  await phone.addInitScript(
    `localStorage.getItem('handspan.phone') ?? localStorage.setItem('handspan.phone', '{"label":"phone"}')`,
  );
  await phone.goto(`${world.gateway.url}/device#code=${code}`);
  await phone.getByText('Connected', { exact: true }).waitFor();

  const page = await world.open('', { viewport: DESKTOP });
  await say(page, 'What stands on my desk? And does my plant need water today?');
  const first = await model.next();
  first.text('I look through your phone, and check your notes.');
  first.call(
    ['phone__camera', {}],
    ['get_current_time', { timezone: 'Europe/Zurich' }],
    ['find_files', { pattern: '*plant*' }],
  );
  await phone.getByText('use camera?').waitFor();
  await keep(phone, 'phone-light');
  await phone.getByRole('button', { name: 'Allow once' }).click();
  const second = await model.next();
  second.text(
    'There is a **plant in a clay pot**, and a cup of tea beside it. I found no note about watering, so I would look at ' +
      'the soil: water it if the top two centimetres are dry.',
  );
  second.end();
  await page.getByRole('button', { name: 'Answer again' }).waitFor();
  await page.getByRole('link', { name: /^What stands on my desk.*just now/ }).waitFor(); // the list has its name
  await page.locator('.call img').evaluate((image) => (image as HTMLImageElement).decode());
  await page.locator('.talk-scroll').evaluate((box) => box.scrollTo(0, 0));
  await keep(page, 'chat-light');
  await page.emulateMedia({ colorScheme: 'dark' });
  await keep(page, 'chat-dark');
  await page.emulateMedia({ colorScheme: 'light' });

  await page.goto(`${world.gateway.url}/#/chat`);
  await page.getByRole('combobox', { name: 'Agent' }).selectOption('Careful');
  await say(page, 'Remind me to water the plant on Friday.');
  const third = await model.next();
  third.text('I write it down.');
  third.call(['write_file', { path: 'notes/plant.md', content: 'Friday: water the plant.\n' }]);
  const dialog = page.getByRole('region', { name: 'Careful wants to use write_file' });
  await dialog.waitFor();
  await keep(page, 'approval-light');
  await dialog.getByRole('button', { name: 'Allow once' }).click();
  const fourth = await model.next();
  fourth.text('Done.');
  fourth.end();
  await page.getByRole('button', { name: 'Answer again' }).waitFor();

  await page.goto(`${world.gateway.url}/#/tools`);
  await page.getByText('phone__camera').waitFor();
  await page.getByText(/tokens of each request/).waitFor();
  await keep(page, 'tools-light');
});
