import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { Device, LoginRequired } from 'handspan/device';
import type { Locator, Page } from 'playwright-core';
import { afterAll, expect, onTestFinished, test } from 'vitest';
import { RawDevice } from './support/raw-device.ts';
import { checkAccess, photograph, say, turn, World } from './support/world.ts';

const config = mkdtempSync(join(tmpdir(), 'handspan-page-'));
mkdirSync(join(config, 'tools'));
writeFileSync(
  join(config, 'tools', 'door.py'),
  `from handspan import tool


@tool(permissions=("front_door",))
def open_door() -> str:
    """Opens the front door."""
    return "It is open."
`,
);
afterAll(() => rmSync(config, { recursive: true, force: true }));

const world = new World('--config', config);

function lastCall(page: Page) {
  return page.locator('.call').last();
}

function asked(page: Page) {
  return page.getByRole('region', { name: 'General wants to use open_door' });
}

async function takeBackRules(page: Page): Promise<void> {
  await page.goto(`${world.gateway.url}/#/questions`);
  await page.getByRole('button', { name: 'Take back the rules of open_door' }).click();
  await page.getByRole('dialog').getByRole('button', { name: 'Take back' }).click();
  await page.getByText('There are none.').waitFor();
  await page.goto(`${world.gateway.url}/#/chat`);
}

test('a permission is denied, granted and remembered, taken back, and denied for ever', async () => {
  const page = await world.open();
  await say(page, 'call open_door');
  await asked(page).getByText('front_door').waitFor();
  await checkAccess(page);
  await photograph(page, 'permission');
  await asked(page).getByRole('button', { name: 'Deny', exact: true }).click();
  await expect.poll(() => lastCall(page).textContent()).toMatch(/front_door.*denied.*failed/);

  await say(page, 'call open_door');
  await asked(page).getByRole('button', { name: 'Allow' }).click();
  await expect.poll(() => page.locator('.call.success').count()).toBe(1);
  await say(page, 'call open_door');
  await expect.poll(() => page.locator('.call.success').count()).toBe(2); // without a question
  await takeBackRules(page);

  await say(page, 'call open_door');
  await asked(page).getByText('For ever…').click();
  await asked(page).getByRole('button', { name: 'Deny for ever' }).click();
  await expect.poll(() => page.locator('.call.error').count()).toBe(1);
  await say(page, 'call open_door');
  await expect.poll(() => page.locator('.call.error').count()).toBe(2); // without a question
  await takeBackRules(page);
});

test('a tool that is switched off for an agent is not called, and the agent is told so', async () => {
  await world.api('POST', '/api/agents', { name: 'Tidy' });
  const page = await world.open('#/agents/Tidy');
  await page.getByLabel('Search tools').fill('get_current_time');
  await turn(page.getByRole('checkbox', { name: /^get_current_time/ }), false);
  await page.goto(`${world.gateway.url}/#/chat`);
  await page.getByRole('combobox', { name: 'Agent' }).selectOption('Tidy');
  await say(page, 'call get_current_time');
  await expect.poll(() => lastCall(page).textContent()).toMatch(/get_current_time.*(not|off).*failed/);
  await page.getByRole('combobox', { name: 'Agent' }).selectOption('General');
  await say(page, 'call get_current_time');
  await expect.poll(() => lastCall(page).textContent()).toMatch(/get_current_time.*done/);
  await lastCall(page)
    .getByRole('button', { name: /get_current_time/ })
    .click();
  await lastCall(page).getByRole('button', { name: 'Switch it off' }).click();
  await page.getByText('get_current_time is off for all agents').waitFor();
  const field = page.getByLabel('Message', { exact: true });
  await expect.poll(() => isInSight(field)).toBe(true); // the sentence lies over nothing that is needed next
  await checkAccess(page);
  await say(page, 'call get_current_time');
  await expect.poll(() => lastCall(page).textContent()).toMatch(/get_current_time.*failed/);
  await lastCall(page)
    .getByRole('button', { name: /get_current_time/ })
    .click();
  await lastCall(page).getByRole('button', { name: 'Switch it on' }).click();
  await lastCall(page).getByRole('button', { name: 'Switch it off' }).waitFor();
  await say(page, 'call get_current_time');
  await expect.poll(() => lastCall(page).textContent()).toMatch(/get_current_time.*done/);
});

/** Whether nothing lies over any corner of the composer. */
function isInSight(field: Locator): Promise<boolean> {
  return field.evaluate((element) => {
    const form = element.closest('form') as HTMLElement;
    const { left, right, top, bottom } = form.getBoundingClientRect();
    const inner = 16; // the corners are round
    return [left + inner, right - inner].every((x) =>
      [top + inner, bottom - inner].every((y) => form.contains(document.elementFromPoint(x, y))),
    );
  });
}

/** A device with one tool. */
async function lend(label: string, handler: () => unknown, onLogin?: () => void): Promise<void> {
  const { url, token } = world.gateway;
  const device = new Device({ url, token, label, onLogin });
  device.tool({ name: 'read_mail', description: 'Reads mail.', annotations: { read_only: true }, handler });
  void device.run();
  onTestFinished(() => device.close());
  await expect.poll(() => device.state.status).toBe('online');
}

test('a login is asked for where the person is, and the call goes on after it', async () => {
  let isLoggedIn = false;
  let began = 0;
  await lend(
    'mailer',
    () => {
      if (!isLoggedIn)
        throw new LoginRequired('The mailbox is locked', { hint: 'Unlock it in the app.', intent: 'mail' });
      return 'no new mail';
    },
    () => {
      began += 1;
    },
  );
  const page = await world.open();
  await say(page, 'call mailer__read_mail\nthen\n{results}');
  const dialog = page.getByRole('region', { name: /needs a login/ });
  await dialog.getByText('Unlock it in the app.').waitFor();
  await checkAccess(page);
  await photograph(page, 'login');
  await dialog.getByRole('button', { name: 'Begin the login there' }).click();
  await expect.poll(() => began).toBe(1);
  isLoggedIn = true;
  await dialog.getByRole('button', { name: 'I have logged in' }).click();
  await page.getByText('no new mail').last().waitFor();
});

test('a device asks whether something may be trusted: old and new are side by side', async () => {
  const desk = await RawDevice.connect(world.gateway, 'desk');
  const answers = () => desk.received.filter(({ type }) => type === 'trust_answer').map(({ decision }) => decision);
  const subject = 'May the bridge start this app?';
  desk.send({ type: 'trust_request', id: 'first', subject, new: { program: 'shopping-provider' } });
  const page = await world.open();
  const first = page.getByRole('dialog', { name: 'desk asks for your trust' });
  await first.getByText('shopping-provider').waitFor();
  expect(await first.getByText('Accepted before').count()).toBe(0);
  await first.getByRole('button', { name: 'Trust it' }).click();
  await expect.poll(answers).toEqual(['allow']);

  const changed = { old: { program: 'shopping-provider' }, new: { program: 'shopping-provider --all' } };
  desk.send({ type: 'trust_request', id: 'second', subject, ...changed });
  const second = page.getByRole('dialog', { name: 'What desk offers has changed' });
  await second.getByText('Accepted before').waitFor();
  await second.getByText('shopping-provider --all').waitFor();
  await checkAccess(page);
  await photograph(page, 'trust');
  await second.getByRole('button', { name: 'Keep it off' }).click();
  await expect.poll(answers).toEqual(['allow', 'deny']);
});
