// A click on a box or a switch counts, however often its list is drawn anew meanwhile.
import type { Page, Request } from 'playwright-core';
import { expect, test } from 'vitest';
import { World } from './support/world.ts';

const world = new World();

/** Holds the changes of a page back until the test lets them go, one at a time. */
async function holdChanges(page: Page, path: RegExp) {
  const held: { request: Request; release: () => void }[] = [];
  await page.route(path, async (route) => {
    if (route.request().method() === 'GET') return route.continue();
    await new Promise<void>((release) => held.push({ request: route.request(), release }));
    await route.continue();
  });
  return {
    count: () => held.length,
    async next(): Promise<Request> {
      await expect.poll(() => held.length).toBeGreaterThan(0);
      const { request, release } = held.shift() as (typeof held)[number];
      release();
      await (await request.response())?.finished();
      return request;
    },
  };
}

/** Lets the list be read and drawn anew, as another person's change would. */
async function redraw(page: Page, path: string): Promise<void> {
  const read = page.waitForResponse((answer) => answer.url().includes(path) && answer.request().method() === 'GET');
  const name = `Other ${crypto.randomUUID()}`;
  await world.api('POST', '/api/agents', { name });
  await (await read).finished();
  await world.api('DELETE', `/api/agents/${encodeURIComponent(name)}`);
  await page.evaluate('new Promise((drawn) => requestAnimationFrame(() => requestAnimationFrame(drawn)))');
}

test('a box that was ticked stays so while its list is drawn anew, and the last of two quick clicks counts', async () => {
  await world.api('POST', '/api/agents', { name: 'Tidy' });
  const page = await world.open('#/agents/Tidy');
  const box = page.getByRole('checkbox', { name: /^get_current_time/ });
  await box.waitFor();
  const changes = await holdChanges(page, /\/api\/agents\/Tidy\/tools$/);
  await box.click();
  expect(await box.isChecked()).toBe(false);
  await expect.poll(changes.count).toBe(1);
  await redraw(page, '/api/agents/Tidy/tools');
  expect(await box.isChecked(), 'while the change is on its way').toBe(false);
  await box.click();
  await box.click();
  await box.click();
  expect(await box.isChecked()).toBe(true);
  expect(changes.count(), 'one change at a time').toBe(1);
  expect((await changes.next()).postDataJSON()).toEqual({ off: ['get_current_time'] });
  await expect.poll(changes.count).toBe(1);
  expect(await box.isChecked(), 'while the list shows the first change').toBe(true);
  expect((await changes.next()).postDataJSON()).toEqual({ on: ['get_current_time'] });
  await expect.poll(() => ticked('Tidy', 'get_current_time')).toBe(true);
  expect(await box.isChecked()).toBe(true);
});

async function ticked(agent: string, tool: string): Promise<boolean | undefined> {
  type Tools = { tools: { name: string; selected: boolean }[] };
  const { tools } = await world.api<Tools>('GET', `/api/agents/${agent}/tools`);
  return tools.find(({ name }) => name === tool)?.selected;
}

test('boxes that are ticked side by side are all kept, and none of them jumps back', async () => {
  await world.api('POST', '/api/agents', { name: 'Quick' });
  const page = await world.open('#/agents/Quick');
  const names = ['get_current_time', 'list_directory', 'read_file', 'write_file'];
  const boxes = names.map((name) => page.getByRole('checkbox', { name: new RegExp(`^${name}\\b`) }));
  await boxes[0]?.waitFor();
  await watchBoxes(page);
  for (const box of boxes) await box.click();
  for (const [index, name] of names.entries()) {
    await expect.poll(() => ticked('Quick', name)).toBe(false);
    expect(await boxes[index]?.isChecked()).toBe(false);
  }
  await page.getByText(/^\d+ of \d+$/).waitFor();
  expect(await page.evaluate('globalThis.jumpedBack')).toEqual([]);
});

/** Notes, in each frame, a box that was clicked off and is on again. */
async function watchBoxes(page: Page): Promise<void> {
  await page.evaluate(() => {
    const clicked = new Set<HTMLInputElement>();
    const jumped: string[] = [];
    document.addEventListener('change', ({ target }) => clicked.add(target as HTMLInputElement));
    const look = () => {
      for (const box of clicked) if (box.checked) jumped.push(box.closest('label')?.textContent ?? '');
      requestAnimationFrame(look);
    };
    requestAnimationFrame(look);
    Object.assign(globalThis, { jumpedBack: jumped });
  });
}

test('a switch of a tool stays where it was put while the list is drawn anew', async () => {
  const page = await world.open('#/tools');
  const control = page.getByRole('switch', { name: 'get_current_time is on' });
  await control.waitFor();
  const changes = await holdChanges(page, /\/api\/switches\//);
  await control.click({ force: true });
  await redraw(page, '/api/tools');
  expect(await control.isChecked()).toBe(false);
  await control.click({ force: true });
  expect(await control.isChecked()).toBe(true);
  expect((await changes.next()).url()).toMatch(/disable$/);
  expect((await changes.next()).url()).toMatch(/enable$/);
  await expect.poll(() => world.api('GET', '/api/switches')).toMatchObject({ disabled: [] });
  expect(await control.isChecked()).toBe(true);
});

test('nothing moves a row of the tools once it is drawn', async () => {
  const page = await world.open();
  let release = () => {};
  const isReleased = new Promise<void>((resolve) => {
    release = resolve;
  });
  await page.route(/\/api\/tools\/cost/, async (route) => {
    await isReleased;
    await route.continue();
  });
  await page.goto(`${world.gateway.url}/#/tools`);
  await page.getByLabel('Search tools').waitFor();
  const place = () => page.getByLabel('Search tools').evaluate((field) => field.getBoundingClientRect().top);
  const before = await place();
  release();
  await page.getByText(/tokens of each request/).waitFor();
  await page.getByRole('switch', { name: 'get_current_time is on' }).waitFor();
  expect(await place()).toBe(before);
});
