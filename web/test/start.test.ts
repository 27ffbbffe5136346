import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { expect, onTestFinished, test } from 'vitest';
import { checkAccess, photograph, World } from './support/world.ts';

const world = new World('--model', '');

test('three things to try work without a key', async () => {
  const page = await world.open();
  await page.getByText('What shall the agent do?').waitFor();
  await checkAccess(page);
  await photograph(page, 'first-start');
  await page.getByRole('link', { name: 'pair a phone' }).click();
  await page.getByRole('dialog', { name: 'Pair a device' }).getByText('It works once').waitFor();
  for (const [title, shown] of [
    ['Ask for the time elsewhere', 'UTC+09:00'],
    ['Write a file and read it', 'hello'],
    ['Run a command', 'notes.txt'],
  ] as const) {
    await page.goto(`${world.gateway.url}/#/chat`);
    await page.getByRole('button', { name: title }).click();
    await expect.poll(() => page.getByRole('article', { name: 'Agent' }).last().textContent()).toContain(shown);
  }
});

test('a real model is added with a key: a wrong one is told with its reason, a good one answers, and it is never shown', async () => {
  const server = createServer((request, response) => {
    const isGood = request.headers.authorization === 'Bearer sk-good';
    const said = { id: '1', choices: [{ index: 0, delta: { content: 'ready' }, finish_reason: 'stop' }] };
    response.writeHead(isGood ? 200 : 401, { 'content-type': isGood ? 'text/event-stream' : 'application/json' });
    response.end(
      isGood ? `data: ${JSON.stringify(said)}\n\ndata: [DONE]\n\n` : '{"error": {"message": "Incorrect API key"}}',
    );
  });
  await new Promise<void>((listening) => server.listen(0, '127.0.0.1', listening));
  onTestFinished(() => void server.close());
  const page = await world.open();
  await page.getByRole('link', { name: 'Use a real model' }).click();
  const dialog = page.getByRole('dialog', { name: 'Use a real model' });
  await dialog.getByRole('button', { name: /Anthropic/ }).waitFor();
  await checkAccess(page);
  await photograph(page, 'models-offers');
  await dialog.getByRole('button', { name: /Another server/ }).click();
  await dialog.getByLabel('Model').fill('tiny');
  await dialog.getByLabel('Base URL').fill(`http://127.0.0.1:${(server.address() as AddressInfo).port}/v1`);
  await dialog.getByLabel('Key', { exact: true }).fill('sk-wrong');
  await dialog.getByRole('button', { name: 'Test and use' }).click();
  await expect.poll(() => dialog.getByRole('alert').textContent()).toMatch(/key/i);
  await photograph(page, 'models-wrong-key');
  await dialog.getByLabel('Key', { exact: true }).fill('sk-good');
  await dialog.getByRole('button', { name: 'Test and use' }).click();
  await dialog.getByText('works').waitFor();
  await dialog.getByRole('button', { name: 'Begin to chat' }).click();
  await page.getByLabel('Message', { exact: true }).fill('hello');
  await page.getByRole('button', { name: 'Send' }).click();
  await expect.poll(() => page.getByRole('article', { name: 'Agent' }).last().textContent()).toContain('ready');
  await page.goto(`${world.gateway.url}/#/models`);
  await page.getByText('because it was chosen on the page').last().waitFor();
  expect(await page.content()).not.toContain('sk-good');
  await photograph(page, 'models');
});
