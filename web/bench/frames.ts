// How smooth the page is, by a trace of the browser: `bench/page.py` runs it and reads the JSON that it prints.
//
//     node web/bench/frames.ts URL TOKEN
//
// The gateway has a tool `work` (32 calls of it report all the time), a journal of 10,000 calls and a chat of 2,000
// messages; an answer of 1 MB comes from a model that this program serves. Each page is measured beside an empty one, by
// turns: both draw a frame whenever the browser lets them.
import { createServer, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { type Browser, chromium, type Page } from 'playwright-core';

const SECONDS = 6;
const ROUNDS = 2;
const CALLS = 32;
const ANSWER = 1_000_000;
/** Characters of each piece of the long answer, and pieces in a second. */
const PIECE = 400;
const PIECES = 200;
const CATEGORIES = ['toplevel', 'devtools.timeline', 'disabled-by-default-devtools.timeline'];
const [url = '', token = '', executablePath = ''] = process.argv.slice(2);

interface TraceEvent {
  name: string;
  pid: number;
  tid: number;
  dur?: number;
  /** What the thread worked of that, where the browser knows it. */
  tdur?: number;
}

/** Milliseconds between frames, and of each task of the page's main thread. */
interface Trace {
  frames: number[];
  tasks: { whole: number; worked: number }[];
}

/** Lets the page draw all the time; `work` runs before each frame. */
const DRAW = `(work) => {
  const draw = () => {
    globalThis.frameStarts.push(performance.now());
    work?.();
    if (globalThis.isMeasured) requestAnimationFrame(draw);
  };
  globalThis.frameStarts = [];
  globalThis.isMeasured = true;
  requestAnimationFrame(draw);
}`;
const SCROLL = `() => { const main = document.querySelector('.talk-scroll') ?? document.querySelector('main'); main.scrollBy(0, globalThis.step ??= 90);
  if (main.scrollTop + main.clientHeight >= main.scrollHeight - 2) globalThis.step = -90;
  if (main.scrollTop === 0) globalThis.step = 90; }`;

/** What happens on a page while it is traced. */
interface Work {
  /** Runs before each frame. */
  each?: string;
  /** What comes first, and is not traced. */
  before?: () => Promise<unknown>;
  /** Begins, when the trace has begun. */
  begin?: () => Promise<unknown>;
  /** How long it takes; without it, some seconds. */
  end?: () => Promise<unknown>;
}

async function trace(
  browser: Browser,
  page: Page,
  { each = 'undefined', before, begin, end }: Work = {},
): Promise<Trace> {
  await page.bringToFront();
  await before?.();
  await browser.startTracing(page, { categories: CATEGORIES });
  await begin?.();
  await page.evaluate(`(${DRAW})(${each})`);
  await (end ? end() : page.waitForTimeout(SECONDS * 1000));
  const { traceEvents } = JSON.parse(String(await browser.stopTracing())) as { traceEvents: TraceEvent[] };
  await page.evaluate('globalThis.isMeasured = false');
  const starts = await page.evaluate<number[]>('globalThis.frameStarts'); // the page has callbacks of its own
  return { frames: starts.slice(1).map((at, index) => at - (starts[index] ?? 0)), tasks: readTasks(traceEvents) };
}

/** Only the measured page draws all the time: its process has the most frames. */
function readTasks(events: TraceEvent[]): Trace['tasks'] {
  const counts = new Map<string, number>();
  for (const { name, pid, tid } of events) {
    if (name === 'FireAnimationFrame') counts.set(`${pid}/${tid}`, (counts.get(`${pid}/${tid}`) ?? 0) + 1);
  }
  const thread = [...counts].sort((one, other) => other[1] - one[1])[0]?.[0];
  return events
    .filter(({ name, pid, tid }) => name.endsWith('RunTask') && `${pid}/${tid}` === thread)
    .map(({ dur = 0, tdur = 0 }) => ({ whole: dur / 1000, worked: tdur / 1000 }));
}

function median(values: number[]): number {
  return [...values].sort((one, other) => one - other)[Math.floor(values.length / 2)] ?? Number.NaN;
}

/** The page beside the empty one, by turns. */
async function compare(browser: Browser, empty: Page, page: Page, work?: Work) {
  const [floor, own]: [Trace[], Trace[]] = [[], []];
  for (let round = 0; round < ROUNDS; round += 1) {
    process.stderr.write(`page: round ${round + 1} of ${ROUNDS}\n`);
    floor.push(await trace(browser, empty));
    own.push(await trace(browser, page, work));
  }
  const frame = (all: Trace[]) => median(all.flatMap(({ frames }) => frames));
  const tasks = own.flatMap((one) => one.tasks);
  const longest_task_ms = Math.max(...tasks.map(({ whole }) => whole));
  const longest_task_cpu_ms = Math.max(...tasks.map(({ worked }) => worked));
  return { frame_ms: frame(own), empty_ms: frame(floor), longest_task_ms, longest_task_cpu_ms, tasks: tasks.length };
}

async function api<Answer>(method: string, path: string, body?: object): Promise<Answer> {
  const headers = { authorization: `Bearer ${token}`, ...(body && { 'content-type': 'application/json' }) };
  const answer = await fetch(`${url}${path}`, { method, headers, ...(body && { body: JSON.stringify(body) }) });
  if (!answer.ok) throw new Error(`${method} ${path}: ${answer.status} ${await answer.text()}`);
  return (await answer.json()) as Answer;
}

/** The chat while 32 tools run and report. */
async function measureChat(browser: Browser, empty: Page, page: Page) {
  let events = 0;
  page.on('websocket', (socket) => socket.on('framereceived', () => (events += 1)));
  await page.reload();
  const calls = Array.from({ length: CALLS }, (_, number) => `call work {"number": ${number}}`);
  await page.getByLabel('Message', { exact: true }).fill(calls.join('\n'));
  await page.getByRole('button', { name: 'Send' }).click();
  await page
    .locator('.call-progress', { hasText: 'step' })
    .nth(CALLS - 1)
    .waitFor();
  const [before, began] = [events, performance.now()];
  const found = await compare(browser, empty, page);
  const events_per_s = ((events - before) / (performance.now() - began)) * 1000;
  await page.getByRole('button', { name: 'Stop' }).click();
  return { ...found, events_per_s };
}

/** The journal of 10,000 calls while it scrolls. */
async function measureJournal(browser: Browser, empty: Page, page: Page) {
  await page.goto(`${url}/#/journal`);
  await page.locator('.call-row').first().waitFor();
  while ((await page.getByText(', and older ones').count()) > 0) {
    await page.locator('main').evaluate((main) => main.scrollTo(0, main.scrollHeight));
    await page.waitForTimeout(100);
  }
  await page.locator('main').evaluate((main) => main.scrollTo(0, 0));
  return compare(browser, empty, page, { each: SCROLL });
}

/** Streams the long answer to each request, as fast as no model does: whatever the time, so many pieces of it are out. */
async function serveModel(onEnd: () => void): Promise<string> {
  const server = createServer((request, response) => {
    request.resume();
    request.on('end', () => stream(response));
    response.on('close', onEnd);
  });
  await new Promise<void>((listening) => server.listen(0, '127.0.0.1', listening));
  server.unref();
  return `http://127.0.0.1:${(server.address() as AddressInfo).port}/v1`;
}

function stream(response: ServerResponse): void {
  response.writeHead(200, { 'content-type': 'text/event-stream' });
  const send = (delta: object, finish_reason: string | null) =>
    response.write(`data: ${JSON.stringify({ id: '1', choices: [{ index: 0, delta, finish_reason }] })}\n\n`);
  const began = performance.now();
  let sent = 0;
  const timer = setInterval(() => {
    const due = Math.min(ANSWER, ((performance.now() - began) / 1000) * PIECES * PIECE);
    for (; sent < due; sent += PIECE) send({ content: textAt(sent) }, null);
    if (sent < ANSWER) return;
    clearInterval(timer);
    send({}, 'stop');
    response.end('data: [DONE]\n\n');
  }, 1000 / PIECES);
}

/** What a long answer is made of, again and again. */
const CODE = `\`\`\`python\n${'def area(radius):\n    return 3.14159 * radius**2  # of a circle\n\n'.repeat(6)}\`\`\`\n\n`;
const TABLE = `| Name | Count | Share |\n|---|---:|---:|\n${'| a row of the table | 1,000 | 4.2/5 |\n'.repeat(12)}\n`;
const PROSE = `${'A sentence with **words** and `code`, which goes on for a while and then ends. '.repeat(6)}\n\n`;
const SECTION = `## A part of it\n\n${PROSE}${PROSE}- one\n- two\n  - a part of two\n- three\n\n${CODE}${PROSE}${TABLE}`;

function textAt(place: number): string {
  const from = place % SECTION.length;
  return (SECTION + SECTION).slice(from, from + PIECE);
}

/** The chat while an answer of 1 MB arrives, and when it is opened with it. */
async function measureAnswer(browser: Browser, empty: Page, page: Page) {
  let onEnd = () => {};
  const base_url = await serveModel(() => onEnd());
  await api('PUT', '/api/models/long', { api: 'openai-chat', model: 'long', base_url, key: 'a-key' });
  const begin = async () => {
    // By addresses and names of elements: to look for roles in a long chat would be more work than what is measured.
    await page.evaluate('location.hash = "#/chat"');
    await page.locator('.welcome').waitFor();
    await page.locator('#chat-model').selectOption('long');
    await page.locator('#say').fill('Tell me all of it.');
    await page.locator('#say').press('Enter');
  };
  await page.goto(`${url}/#/chat`);
  const end = async () => {
    await new Promise<void>((ended) => {
      onEnd = ended; // to ask the page would be work of the page
    });
    await page.waitForTimeout(2000);
  };
  const answer = await compare(browser, empty, page, { begin, end });
  return { answer, answer_open: await compareOpening(browser, empty, page) };
}

/** The page as it is opened. To leave what it showed before is not measured. */
function compareOpening(browser: Browser, empty: Page, page: Page) {
  const address = page.url();
  const before = () => page.goto('about:blank');
  return compare(browser, empty, page, { before, begin: () => page.goto(address) });
}

/** A chat of 2,000 messages: opened, and read from its end to its beginning. */
async function measureLong(browser: Browser, empty: Page, page: Page) {
  await page.goto(`${url}/#/chat/long`);
  const long_open = await compareOpening(browser, empty, page);
  await page.locator('.messages[aria-busy=false]').waitFor();
  return { long_open, long: await compare(browser, empty, page, { each: SCROLL }) };
}

const browser = await chromium.launch({ executablePath });
try {
  const context = await browser.newContext({ viewport: { width: 1280, height: 800 } });
  context.setDefaultTimeout(120_000);
  const page = await context.newPage();
  const link = await api<{ url: string }>('POST', '/api/signin');
  await page.goto(link.url);
  const empty = await (await browser.newContext({ viewport: { width: 1280, height: 800 } })).newPage();
  const chat = await measureChat(browser, empty, page);
  const journal = await measureJournal(browser, empty, page);
  const long = await measureLong(browser, empty, page);
  const answer = await measureAnswer(browser, empty, page);
  process.stdout.write(`${JSON.stringify({ chat, journal, ...long, ...answer })}\n`);
} finally {
  await browser.close();
}
