import { fileURLToPath } from 'node:url';
import { Device } from 'handspan/device';
import type { CallPage, ListedCall } from 'handspan/rest';
import type { Page } from 'playwright-core';
import { expect, onTestFinished, test } from 'vitest';
import { RawDevice } from './support/raw-device.ts';
import { checkAccess, PHONE, photograph, say, turn, World } from './support/world.ts';

/** A guard, no measure: on a busy machine all takes long. */
const WAIT = { timeout: 90_000 };

const PYTHON = fileURLToPath(new URL('../../.venv/bin/python', import.meta.url));
const MCP_SERVER = fileURLToPath(new URL('../../tests/sources/mcp/server.py', import.meta.url));
const world = new World('--set', 'agents={"Careful": {"mode": "ask_always"}}');

async function heading(page: Page, name: string): Promise<void> {
  await page.getByRole('heading', { name, level: 1 }).waitFor();
}

/** The page as it should be: no serious problem of access, and pictures of it. */
async function look(page: Page, name: string): Promise<void> {
  await checkAccess(page);
  await photograph(page, name);
}

function call(name: string, args: object = {}): Promise<unknown> {
  return world.api('POST', `/api/tools/${name}/call`, { args });
}

test('tools: one is found, tried, switched off for all, and says why an agent can not use it', async () => {
  const page = await world.open('#/tools');
  await heading(page, 'Tools');
  await page.getByText(/take about [\d,]+ tokens of each request/).waitFor();
  await look(page, 'tools');
  await page.getByLabel('Search tools').fill('get_current_time');
  await page.getByRole('link', { name: /^get_current_time/ }).click();
  await heading(page, 'get_current_time');
  await page.getByLabel('timezone').fill('UTC');
  await page.getByRole('button', { name: 'Run' }).click();
  await page
    .getByText(/"timezone"|T\d\d:/)
    .first()
    .waitFor();
  await page.getByRole('link', { name: /just now/ }).waitFor();
  await page.getByRole('heading', { name: 'What model APIs lose of it' }).waitFor();
  await look(page, 'tool');
  await turn(page.getByRole('switch', { name: 'get_current_time is on' }), false);
  await page.getByText(/can’t use it/).waitFor();
  await page.getByRole('link', { name: 'Tools', exact: true }).first().click();
  await turn(page.getByRole('switch', { name: 'get_current_time is on' }), true);
  const all = page.getByRole('switch', { name: 'All of Built-in' });
  await turn(all, false);
  await page.getByRole('switch', { name: 'get_current_time is switched off by origin:builtin' }).waitFor();
  await turn(all, true);
  await page.getByRole('switch', { name: 'get_current_time is on' }).waitFor();
});

test('tools: a number is taken as it is typed, also while it is not whole yet', async () => {
  const page = await world.open('#/tools/exec_shell');
  const field = page.locator('form input[type=number]').first();
  for (const number of ['1.05', '-2.5', '0.001']) {
    await field.fill('');
    await field.pressSequentially(number);
    expect(await field.inputValue()).toBe(number);
  }
});

test('tools: one that takes minutes is waited for when it is tried', async () => {
  const { url, token } = world.gateway;
  const device = new Device({ url, token, label: 'slow' });
  onTestFinished(() => device.close());
  let end = (_: string) => {};
  const ended = new Promise<string>((resolve) => {
    end = resolve;
  });
  device.tool({ name: 'work', description: 'Works.', annotations: { read_only: true }, handler: () => ended });
  void device.run();
  await expect.poll(() => device.state.status).toBe('online');
  const page = await world.open();
  await page.clock.install();
  await page.goto(`${url}/#/tools/slow__work`);
  await page.getByRole('button', { name: 'Run' }).click();
  await page.getByText('Running…').waitFor();
  await page.clock.fastForward(120_000);
  end('It is done.');
  await page.locator('form.card').getByText('It is done.').waitFor();
  await world.api('DELETE', '/api/devices/slow'); // the tests of devices begin with none
});

test('agents: what no agent can use now is marked with the reason, and not counted', async () => {
  const { tools } = await world.api<{ tools: { name: string; unusable: string }[] }>(
    'GET',
    '/api/agents/General/tools',
  );
  const [first] = tools.filter((one) => one.unusable);
  const { tool_count } = await world.api<{ tool_count: number }>('GET', '/api/agents/General');
  expect(tool_count).toBeLessThan(tools.length);
  const page = await world.open('#/agents/General');
  await page.getByText(`${tool_count} of ${tool_count}`, { exact: true }).waitFor();
  const box = page.locator('label.check').filter({ has: page.getByText(`Not counted: ${first?.unusable}.`) });
  await box
    .filter({ hasText: first?.name ?? '' })
    .getByText('not usable')
    .waitFor();
});

test('agents: made, changed, its tools ticked without their parameters, cloned and deleted', async () => {
  const page = await world.open('#/agents');
  await heading(page, 'Agents');
  await look(page, 'agents');
  await page.getByRole('button', { name: 'New agent' }).click();
  await page.getByRole('dialog').getByLabel('Name').fill('Gardener');
  await page.getByRole('button', { name: 'Create' }).click();
  await heading(page, 'Gardener');
  await page.getByRole('textbox', { name: 'Instructions' }).fill('Water the plants.');
  await page.getByLabel('When a person is asked').selectOption('read_only');
  await page.getByLabel('Equal calls in a turn').fill('3');
  await page.getByRole('button', { name: 'Save' }).click();
  await page.getByText('Saved.').waitFor();
  await page.getByRole('button', { name: 'Untick all of Built-in' }).click();
  await page.getByText(/^0 of \d+$/).waitFor();
  await page.getByLabel('Search tools').fill('get_current_time');
  await turn(page.getByRole('checkbox', { name: /^get_current_time/ }), true);
  await page.getByText(/^1 of \d+$/).waitFor();
  await page.getByLabel('Search tools').fill('');
  await look(page, 'agent');
  const kept = await world.api<{ instructions: string; mode: string; limits: object }>('GET', '/api/agents/Gardener');
  expect(kept).toMatchObject({ instructions: 'Water the plants.', mode: 'read_only', limits: { repeats: 3 } });
  await page.getByRole('link', { name: 'Agents', exact: true }).first().click();
  await page.getByRole('button', { name: 'Clone Gardener' }).click();
  await page.getByRole('button', { name: 'Clone', exact: true }).click();
  await heading(page, 'Gardener 2');
  await page.getByRole('button', { name: 'Delete' }).click();
  await page.getByRole('dialog').getByRole('button', { name: 'Delete' }).click();
  await heading(page, 'Agents');
  await expect.poll(() => page.getByText('Gardener 2').count(), WAIT).toBe(1); // the sentence that it is deleted
});

test('questions: an open one is answered in the list, and its rule is taken back', async () => {
  const page = await world.open('#/questions');
  await page.getByText('Nothing waits for you').waitFor();
  const body = { args: { path: 'note.txt', content: 'hello' }, agent: 'Careful' };
  const asking = world.api('POST', '/api/tools/write_file/call', body);
  await page.getByRole('region', { name: 'Careful wants to use write_file' }).getByText('+hello').waitFor();
  expect(await page.getByRole('dialog').count()).toBe(0); // it does not lie over itself
  await look(page, 'questions');
  await page.getByText('For ever…').click();
  await page.getByRole('button', { name: 'Always allow' }).click();
  await asking;
  await page.getByText('Nothing waits for you').waitFor();
  await page.getByRole('button', { name: 'Take back the rules of write_file' }).click();
  await checkAccess(page);
  await page.getByRole('dialog').getByRole('button', { name: 'Take back' }).click();
  await page.getByText('There are none.').waitFor();
});

test('journal: calls come live, are filtered, and one shows all', async () => {
  const page = await world.open('#/journal');
  await heading(page, 'Journal');
  await call('get_current_time', {});
  await call('read_file', { path: 'missing.txt' });
  await page.getByRole('link', { name: /^read_file.*file_not_found/ }).waitFor();
  await look(page, 'journal');
  const filters = await page.locator('.filters .choose').all();
  const tops = await Promise.all(filters.map(async (one) => (await one.boundingBox())?.y));
  expect(tops.length).toBe(4);
  expect(new Set(tops).size, 'the filters stand in one row').toBe(1);
  await page.getByLabel('Status').selectOption('error');
  await expect.poll(() => page.getByRole('link', { name: /success/ }).count(), WAIT).toBe(0);
  await page
    .getByRole('link', { name: /^read_file/ })
    .first()
    .click();
  await page.getByRole('dialog').getByText('missing.txt').first().waitFor();
  await look(page, 'journal-call');
  await page.keyboard.press('Escape');
  await page.getByLabel('From').selectOption('builtin');
  await page.getByLabel('Status').selectOption('open');
  await page.getByText('No call fits').waitFor();
  await page.getByLabel('Status').selectOption('');
  await page.getByRole('link', { name: 'By tool' }).click();
  await page.getByRole('row', { name: /^get_current_time/ }).waitFor();
  await look(page, 'journal-tools');
});

test('journal: what came while the page was in the background is there when it is back', async () => {
  await call('get_current_time');
  const page = await world.open('#/journal/calls');
  const all = async () => (await world.api<CallPage>('GET', '/api/calls?limit=1000')).calls.length;
  await page.getByText(`${await all()} calls`).waitFor();
  const show = (state: string) =>
    page.evaluate((now) => {
      Object.defineProperty(document, 'visibilityState', { configurable: true, get: () => now });
      document.dispatchEvent(new Event('visibilitychange'));
    }, state);
  await show('hidden');
  for (let round = 0; round < 13; round += 1)
    await Promise.all(Array.from({ length: 10 }, () => call('get_current_time')));
  await show('visible');
  await page.getByText(`${await all()} calls`).waitFor();
});

test('journal: a list of open calls leaves out those that have ended meanwhile', async () => {
  const page = await world.open('#/journal/calls');
  await page.getByLabel('Status').selectOption('open');
  await page.getByText('No call fits').waitFor();
  const other = await world.another(page);
  await say(other, 'call ask_user {"question": "Wait?"}');
  await page.getByRole('dialog').getByRole('button', { name: 'Close' }).click();
  await page.getByRole('list', { name: 'Calls' }).getByText('ask_user').waitFor();
  await other.getByRole('region', { name: 'General asks you' }).getByRole('button', { name: 'No answer' }).click();
  await page.getByText('No call fits').waitFor();
});

test('journal: of ten thousand calls only those in sight are drawn', async () => {
  const page = await world.open();
  await page.route(/\/api\/calls\?/, (route) => {
    const query = new URL(route.request().url()).searchParams;
    void route.fulfill({ json: manyCalls(Number(query.get('limit')), query.get('after') ?? '') });
  });
  await page.goto(`${world.gateway.url}/#/journal`);
  await page.getByText('1,000 calls, and older ones').waitFor();
  const rows = page.locator('.call-row');
  expect(await rows.count()).toBeLessThan(60);
  await expect
    .poll(async () => {
      await page.locator('main').evaluate((main) => main.scrollTo(0, main.scrollHeight));
      return page.getByText('10,000 calls').count();
    }, WAIT)
    .toBe(1);
  await page.locator('main').evaluate((main) => main.scrollTo(0, main.scrollHeight));
  await page.getByRole('link', { name: /tool_9999/ }).waitFor();
  expect(await rows.count()).toBeLessThan(60);
});

const noModel = { model: '', in_place_of: '', reason: '', parent: '' };

function manyCalls(limit: number, after: string): CallPage {
  const first = Number(after || 0);
  const calls = Array.from({ length: limit }, (_, index): ListedCall => {
    const number = first + index;
    const at = new Date(Date.UTC(2026, 0, 1) - number * 1000).toISOString();
    const rest = { origin: 'builtin', version: '', session: '', agent: 'General', waited: 0, ...noModel };
    return { id: `c${number}`, tool: `tool_${number}`, state: 'done', status: 'success', at, duration: 0.01, ...rest };
  });
  return { calls, next: first + limit < 10_000 ? String(first + limit) : null };
}

test('usage: what a model did not report is empty, never 0', async () => {
  await world.api('POST', '/webhook', { message: 'hello' });
  const page = await world.open('#/journal/usage');
  const row = page.getByRole('row', { name: /^spoken/ });
  await row.waitFor();
  expect(await row.getByRole('cell').allTextContents()).toEqual([expect.stringMatching(/^\d+$/), '', '', '', '', '']);
  await look(page, 'usage');
  await page.getByLabel('Time').selectOption('all');
  await row.waitFor();
  await page.setViewportSize(PHONE);
  const table = page.getByRole('region', { name: 'Usage by model' });
  await table.waitFor();
  expect(await table.evaluate(({ scrollWidth, clientWidth }) => scrollWidth - clientWidth)).toBe(0);
  await checkAccess(page);
});

test('devices: a code pairs one, which is renamed and revoked', async () => {
  const page = await world.open('#/devices');
  await page.getByText('No device yet').waitFor();
  await look(page, 'devices-empty');
  await page.getByRole('button', { name: 'Pair a device' }).click();
  const dialog = page.getByRole('dialog');
  await dialog.getByText('Only this computer reaches the gateway').waitFor();
  await look(page, 'devices-pair');
  const device = await lendTool((await dialog.locator('b.mono').textContent()) ?? '');
  await page.getByText('connected', { exact: true }).waitFor();
  await expect.poll(() => dialog.count(), WAIT).toBe(0);
  await page.getByText('1 tool', { exact: true }).click();
  await page.getByRole('link', { name: 'lamp__blink' }).waitFor();
  await look(page, 'devices');
  await page.getByRole('button', { name: /^Rename/ }).click();
  await dialog.getByLabel('Label').fill('kitchen');
  await dialog.getByRole('button', { name: 'Rename' }).click();
  await page.getByText('connected as lamp', { exact: true }).waitFor();
  await page.getByRole('button', { name: 'Revoke kitchen' }).click();
  await dialog.getByRole('button', { name: 'Revoke' }).click();
  await page.getByText('No device yet').waitFor();
  device.close();
});

/** A device that a person has paired with this code. */
async function lendTool(code: string): Promise<Device> {
  const { url } = world.gateway;
  const paired = await fetch(`${url}/pair`, {
    method: 'POST',
    headers: { 'content-type': 'application/json' },
    body: JSON.stringify({ code }),
  });
  const { token } = (await paired.json()) as { token: string };
  const device = new Device({ url, token, label: 'lamp' });
  device.tool({ name: 'blink', description: 'Blinks.', handler: () => 'blinked' });
  void device.run();
  return device;
}

test('devices: a gateway in the network shows a QR code', async () => {
  const page = await world.open();
  await page.route('**/api/pairing', async (route) => {
    const made = await (await route.fetch()).json();
    const qr = '<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 9 9"><path fill="#fff" d="M0 0h9v9H0z"/></svg>';
    await route.fulfill({ status: 201, json: { ...made, url: 'https://box.local:1', qr } });
  });
  await page.goto(`${world.gateway.url}/#/devices`);
  await page.getByRole('button', { name: 'Pair a device' }).click();
  const code = page.getByRole('img', { name: 'QR code with the link below' });
  await code.waitFor();
  await expect.poll(() => code.evaluate((image) => (image as HTMLImageElement).naturalWidth), WAIT).toBeGreaterThan(0);
});

test('devices: an app behind a bridge is shown with what it says of itself, and what of it is not offered', async () => {
  const app = await RawDevice.connect(world.gateway, 'shopping');
  const parameters = { type: 'object', properties: {} };
  app.send({ type: 'register_tools', tools: [{ name: 'shopping__list_items', description: 'Lists.', parameters }] });
  app.send({
    type: 'about',
    description: 'Keeps your shopping list.',
    scopes: [{ name: 'items', description: 'what is on the list' }, { name: 'shops' }],
    notes: ["The tool 'add_item' is not offered: it says that it writes."],
  });
  const page = await world.open('#/devices');
  await page.getByText('Keeps your shopping list.').waitFor();
  await page.getByText('items (what is on the list), shops').waitFor();
  await page.getByText("'add_item' is not offered").waitFor();
  await page.getByText('1 tool', { exact: true }).click();
  await page.getByRole('link', { name: 'shopping__list_items' }).waitFor();
  await look(page, 'devices-app');
});

test('tokens: one is made, shown once and revoked', async () => {
  const page = await world.open('#/tokens');
  await page.getByText('this browser').waitFor();
  await page.getByRole('button', { name: 'New token' }).click();
  const dialog = page.getByRole('dialog');
  await dialog.getByLabel('Label').fill('laptop');
  await checkAccess(page);
  await dialog.getByRole('button', { name: 'Make it' }).click();
  await dialog.getByText('it is not shown again').waitFor();
  await dialog.getByRole('button', { name: 'Done' }).click();
  await look(page, 'tokens');
  await page.getByRole('button', { name: 'Revoke laptop' }).click();
  await dialog.getByRole('button', { name: 'Revoke' }).click();
  await expect.poll(() => page.getByRole('button', { name: 'Revoke laptop' }).count(), WAIT).toBe(0);
  await page.getByText(/(1 is|\d+ are) revoked\./).waitFor();
});

test('MCP servers: one is added, tested, hidden and shown, its definitions accepted, removed; a failure says why', async () => {
  const page = await world.open('#/mcp');
  await page.getByText('No MCP server yet').waitFor();
  await addServer(page, 'broken', 'no-such-program-anywhere');
  await page.getByRole('link', { name: /^broken/ }).waitFor();
  await page.getByText('failed', { exact: true }).waitFor();
  await addServer(page, 'demo', `${PYTHON} -I -S ${MCP_SERVER}`);
  await look(page, 'mcp');
  await page.getByRole('link', { name: /^demo/ }).click();
  await heading(page, 'demo');
  await page.getByRole('link', { name: 'demo__echo' }).waitFor();
  await look(page, 'mcp-server');
  const shown = page.getByRole('switch', { name: 'Show its tools to agents' });
  await turn(shown, false);
  await expect.poll(async () => (await serverNamed('demo')).internal_only, WAIT).toBe(true);
  await turn(shown, true);
  await expect.poll(async () => (await serverNamed('demo')).internal_only, WAIT).toBe(false);
  await page.getByRole('button', { name: 'Test' }).click();
  await page.getByText('ready', { exact: true }).waitFor();
  await page.getByRole('button', { name: 'Remove' }).click();
  await page.getByRole('dialog').getByRole('button', { name: 'Remove' }).click();
  await heading(page, 'MCP servers');
  await expect.poll(() => page.getByRole('link', { name: /^demo/ }).count(), WAIT).toBe(0);
});

test('MCP servers: a changed definition is beside the accepted one', async () => {
  const page = await world.open();
  const server = { name: 'issues', status: 'ready', tools: ['issues__add'], internal_only: false, trusted: false };
  const more = { waiting: ['issues__add'], can_change: true, where: 'https://issues.example/mcp', problems: [] };
  const [old, now] = [{ description: 'Adds an issue.' }, { description: 'Adds an issue and tells everybody.' }];
  const changed = { tool: 'issues__add', old, new: now, is_blocked: true };
  await page.route('**/api/mcp', (route) => route.fulfill({ json: { servers: [{ ...server, ...more, reason: '' }] } }));
  await page.route('**/changes', (route) => route.fulfill({ json: { name: 'issues', tools: [changed] } }));
  await page.goto(`${world.gateway.url}/#/mcp/issues`);
  await page.getByText('Adds an issue and tells everybody.').waitFor();
  await page.getByText('can’t be called').waitFor();
  await page.getByRole('button', { name: 'Log in' }).waitFor();
  await look(page, 'mcp-changes');
});

async function addServer(page: Page, name: string, where: string): Promise<void> {
  await page.getByRole('button', { name: 'Add a server' }).click();
  const dialog = page.getByRole('dialog');
  await dialog.getByLabel('Name', { exact: true }).fill(name);
  await dialog.getByLabel('Command line or address').fill(where);
  await dialog.getByRole('button', { name: 'Add and test' }).click();
  await expect.poll(() => dialog.count(), WAIT).toBe(0);
}

async function serverNamed(name: string): Promise<{ internal_only: boolean }> {
  type Server = { name: string; internal_only: boolean };
  const { servers } = await world.api<{ servers: Server[] }>('GET', '/api/mcp');
  const found = servers.find((one) => one.name === name);
  if (!found) throw new Error(`there is no server ${name}`);
  return found;
}

test('skills: one of the workspace is read, allowed, and switched on for an agent', async () => {
  const content = '---\nname: poet\ndescription: Answers in verse.\n---\nAnswer in verse.\n';
  await call('write_file', { path: '.handspan/skills/poet/SKILL.md', content });
  const page = await world.open('#/skills');
  await page.getByText('not allowed').waitFor();
  await look(page, 'skills');
  await page.getByRole('button', { name: /^poet/ }).click();
  await page.getByRole('dialog').getByText('Answer in verse.').waitFor();
  await checkAccess(page);
  await page.getByRole('button', { name: 'Allow it as it is here' }).click();
  await expect.poll(() => page.getByText('not allowed').count(), WAIT).toBe(0);
  await turn(page.getByRole('switch', { name: 'poet is on for General' }), true);
  type Skilled = { skills: string[] };
  await expect
    .poll(async () => (await world.api<Skilled>('GET', '/api/agents/General')).skills, WAIT)
    .toEqual(['poet']);
});

test('artifacts: listed, opened and downloaded', async () => {
  const page = await world.open('#/artifacts');
  await page.getByText('No artifacts yet').waitFor();
  const { url, token } = world.gateway;
  const headers = { authorization: `Bearer ${token}`, 'content-type': 'text/plain' };
  await fetch(`${url}/api/artifacts?name=plan.txt`, { method: 'POST', headers, body: 'Sow in March.' });
  await page.reload();
  await page.getByRole('link', { name: 'plan.txt', exact: true }).waitFor();
  await look(page, 'artifacts');
  const [download] = await Promise.all([
    page.waitForEvent('download'),
    page.getByRole('link', { name: 'Download plan.txt' }).click(),
  ]);
  expect(download.suggestedFilename()).toBe('plan.txt');
});

test('the page that the person left for is shown, also when the one before comes later', async () => {
  const page = await world.open();
  let release = () => {};
  const isReleased = new Promise<void>((resolve) => {
    release = resolve;
  });
  await page.route('**/page/devices.js', async (route) => {
    await isReleased;
    await route.continue();
  });
  await page.goto(`${world.gateway.url}/#/devices`);
  await page.goto(`${world.gateway.url}/#/tokens`);
  await heading(page, 'Tokens');
  release();
  await page.evaluate("import('/page/devices.js').then(() => new Promise(requestAnimationFrame))");
  expect(await page.getByRole('heading', { name: 'Tokens', level: 1 }).count()).toBe(1);
});

test('a list that can not be read says why', async () => {
  const page = await world.open();
  const refusal = { status: 403, json: { error: 'This is not for you.', code: 'forbidden' } };
  await page.route(/\/api\/(tools|agents|devices|artifacts|mcp|skills|tokens|calls|usage|rules)(\?|$)/, (route) =>
    route.fulfill(refusal),
  );
  for (const id of ['tools', 'agents', 'questions', 'journal', 'journal/usage', 'devices', 'mcp', 'skills']) {
    await page.goto(`${world.gateway.url}/#/${id}`);
    await page.getByText('This is not for you.').first().waitFor();
  }
  await checkAccess(page);
});

test('artifacts: a script among them does not run in the page', async () => {
  const page = await world.open('#/artifacts');
  await heading(page, 'Artifacts');
  world.expectErrors(/MIME type \('text\/plain'\) is not executable/);
  const outcome = await page.evaluate(async () => {
    const headers = { 'content-type': 'text/javascript' };
    const made = await fetch('/api/artifacts', { method: 'POST', body: 'window.hasRun = true', headers });
    const script = document.createElement('script');
    const ended = new Promise((resolve) => {
      script.onload = () => resolve('loaded');
      script.onerror = () => resolve('refused');
    });
    script.src = `/api/artifacts/${(await made.json()).id}`;
    document.head.append(script);
    return [made.status, await ended, 'hasRun' in window];
  });
  expect(outcome).toEqual([201, 'refused', false]);
});
