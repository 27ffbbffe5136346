// A page of another origin whose functions are tools of the agent: every way to talk, and every way to fail.
import type { Page } from 'playwright-core';
import { describe, expect, test } from 'vitest';
import { fileOf } from './support/files.js';
import type { InPage } from './support/page.js';
import { Tabs } from './support/tabs.js';

declare const handspan: InPage['handspan'];
declare const browser: InPage['browser'];
declare const Device: InPage['Device'];
declare const say: InPage['say'];

const tabs = new Tabs({ gateway: [] });
const WAYS = ['invoke', 'stream', 'chat'] as const;
const gateway = () => ({ baseUrl: tabs.gateway.url, token: tabs.gateway.token });
const SUCCESS = { status: 'success' };
/** What the model says it got. */
const results = (ended: { text: string }) => JSON.parse(ended.text) as Record<string, unknown>[];

describe.each(WAYS)('%s', (way) => {
  test('a handler runs in the page, and its answer reaches the model', async () => {
    const page = await tabs.open();
    const ended = await page.evaluate(
      async ({ to, way }) => {
        const client = new handspan.HandspanClient(to);
        client.registerTool({ name: 'title', description: 'The title', handler: () => document.title });
        return say(client, way, 'call title\nthen\n{results}');
      },
      { to: gateway(), way },
    );
    expect(results(ended)).toMatchObject([{ ...SUCCESS, result: 'A page of the tests' }]);
    expect(ended).toMatchObject({ iterations: 2, isLimit: false, meta: { status: 'completed' } });
  });

  test('three calls of one round run at the same time, and all are answered in their order', async () => {
    const page = await tabs.open();
    const ended = await page.evaluate(
      async ({ to, way }) => {
        const client = new handspan.HandspanClient(to);
        let waiting = 0;
        let open = () => {};
        const gate = new Promise<void>((resolve) => {
          open = resolve;
        });
        const handler = async ({ n }: { n: number }) => {
          waiting += 1;
          if (waiting === 3) open();
          await gate; // which only opens when all three are here
          return n;
        };
        client.registerTool({ name: 'meet', handler });
        return say(client, way, 'call meet {"n": 1}\ncall meet {"n": 2}\ncall meet {"n": 3}\nthen\n{results}');
      },
      { to: gateway(), way },
    );
    expect(results(ended).map(({ result }) => result)).toEqual([1, 2, 3]);
    expect(ended.iterations).toBe(2);
  });

  test('a handler that throws, and one that never returns, are failures that the model hears of', async () => {
    const page = await tabs.open();
    const ended = await page.evaluate(
      async ({ to, way }) => {
        const client = new handspan.HandspanClient(to);
        client.registerTool({
          name: 'broken',
          handler: () => {
            throw new Error('Something went wrong');
          },
        });
        client.registerTool({ name: 'endless', timeout: 0.2, handler: () => new Promise(() => {}) });
        return say(client, way, 'call broken\ncall endless\nthen\n{results}');
      },
      { to: gateway(), way },
    );
    const [broken, endless] = results(ended);
    expect(broken).toMatchObject({ status: 'error', message: expect.stringContaining('Something went wrong') });
    expect(endless).toMatchObject({ status: 'error', code: 'timeout' });
  });
});

test('a stream shows the words of the model on the way', async () => {
  const page = await tabs.open();
  const ended = await page.evaluate(async ({ to }) => say(new handspan.HandspanClient(to), 'stream', 'Good morning'), {
    to: gateway(),
  });
  expect(ended.text).toBe('Good morning');
  expect(ended.events).toContain('message');
});

describe('a tab that is reloaded in the middle of a call', () => {
  /** Begins a run in that thread whose call is still open when this returns. */
  async function interrupted(page: Page, thread: string): Promise<void> {
    await page.evaluate(
      ({ to, thread }) => {
        const client = new handspan.HandspanClient(to);
        return new Promise<void>((started) => {
          client.registerTool({
            name: 'slow',
            handler: () => {
              started();
              return new Promise(() => {});
            },
          });
          say(client, 'invoke', 'call slow\nthen\n{results}', { config: { thread_id: thread } }).catch(() => {});
        });
      },
      { to: gateway(), thread },
    );
    await page.reload();
  }

  test('blocks nobody: the next message of the thread is answered, and the old call is cancelled', async () => {
    const page = await tabs.open();
    await interrupted(page, 'reloaded');
    const found = await page.evaluate(
      async ({ to }) => {
        const client = new handspan.HandspanClient(to);
        const config = { thread_id: 'reloaded' };
        const openCalls = async () =>
          (await client.threadState('reloaded')).data.state.execution_meta.interrupt_data?.open_calls ?? [];
        const before = await openCalls();
        const ended = await say(client, 'invoke', 'Hello again', { config });
        const late = handspan.Message.tool_message([new handspan.ToolResultBlock(before[0]?.id ?? '', 'too late')]);
        const refused = await client.invoke(late).then(
          () => undefined,
          ({ status, code, message }) => ({ status, code, message }),
        );
        return { before, ended, after: await openCalls(), refused };
      },
      { to: gateway() },
    );
    expect(found.before).toMatchObject([{ name: 'slow', args: {} }]);
    expect(found.ended).toMatchObject({ text: 'Hello again', meta: { status: 'completed' } });
    expect(found.after).toEqual([]);
    expect(found.refused).toMatchObject({
      status: 422,
      code: 'GRAPH_ANSWERED_CALL',
      message: expect.stringContaining('was given up'),
    });
  });

  test('can also take the call up again', async () => {
    const page = await tabs.open();
    await interrupted(page, 'resumed');
    const text = await page.evaluate(
      async ({ to }) => {
        const client = new handspan.HandspanClient(to);
        client.registerTool({ name: 'slow', handler: () => 'from the new page' });
        return (await client.resume('resumed'))?.messages.at(-1)?.text();
      },
      { to: gateway() },
    );
    expect(JSON.parse(text ?? '')).toMatchObject([{ ...SUCCESS, result: 'from the new page' }]);
  });
});

test.each(WAYS)('two tabs with one token and the same names get only their own calls: %s', async (way) => {
  const context = await tabs.context();
  const pages = await Promise.all(['one', 'two'].map(() => context.newPage()));
  await Promise.all(pages.map((page) => page.goto(tabs.site.url)));
  const ask = (page: Page, name: string) =>
    page.evaluate(
      async ({ to, way, name }) => {
        const client = new handspan.HandspanClient(to);
        const channel = new BroadcastChannel('begun');
        const other = new Promise<void>((resolve) => {
          channel.onmessage = ({ data }) => {
            if (data === 'hello') channel.postMessage('hello back');
            resolve();
          };
        });
        let calls = 0;
        client.registerTool({
          name: 'who',
          handler: async () => {
            calls += 1;
            channel.postMessage('hello');
            await other; // both calls are open now
            return name;
          },
        });
        const ended = await say(client, way, 'call who\nthen\n{results}');
        return { ended, calls };
      },
      { to: gateway(), way, name },
    );
  const [one, two] = await Promise.all([ask(pages[0] as Page, 'one'), ask(pages[1] as Page, 'two')]);
  expect([one.calls, two.calls]).toEqual([1, 1]);
  expect(results(one.ended)).toMatchObject([{ ...SUCCESS, result: 'one' }]);
  expect(results(two.ended)).toMatchObject([{ ...SUCCESS, result: 'two' }]);
});

describe('from another origin', () => {
  test('a page that the gateway does not know gets nothing done, in no way', async () => {
    const page = await tabs.openInsecure();
    const failed = await page.evaluate(
      async ({ to, ways }) => {
        const client = new handspan.HandspanClient(to);
        const config = { thread_id: 'foreign' };
        const said = ways.map((way) => say(client, way, 'Hello', { config }).catch((error) => error.name));
        return Promise.all(said);
      },
      { to: gateway(), ways: WAYS },
    );
    expect(failed).toEqual(['ConnectionError', 'ConnectionError', 'ConnectionError']);
    const known = await tabs.open();
    const status = await known.evaluate(
      async ({ to }) => new handspan.HandspanClient(to).threadDetails('foreign').catch((error) => error.status),
      { to: gateway() },
    );
    expect(status).toBe(404);
  });

  test('a page that it knows may delete, with a body', async () => {
    const page = await tabs.open();
    const found = await page.evaluate(
      async ({ to }) => {
        const client = new handspan.HandspanClient(to);
        await client.invoke('Hello', { config: { thread_id: 'gone' } });
        const { data } = await client.deleteThread('gone', { why: 'a body' });
        return { data, after: await client.threadDetails('gone').catch((error) => error.status) };
      },
      { to: gateway() },
    );
    expect(found).toMatchObject({ data: { success: true }, after: 404 });
  });
});

describe('ready-made tools', () => {
  test('of a client: the agent reads the clipboard and takes a photo', async () => {
    const page = await tabs.open(['clipboard-read', 'clipboard-write', 'camera']);
    const ended = await page.evaluate(
      async ({ to }) => {
        const client = new handspan.HandspanClient(to);
        for (const tool of browser.browserTools()) client.registerTool(tool);
        const steps = ['call write_clipboard {"text": "tea"}', 'then', 'call read_clipboard', 'call camera'];
        return say(client, 'invoke', [...steps, 'call record_audio {"seconds": 100}', 'then', '{results}'].join('\n'));
      },
      { to: gateway() },
    );
    const [clipboard, photo, sound] = results(ended);
    expect(clipboard).toMatchObject({ status: 'success', result: { text: 'tea' } });
    expect(photo).toMatchObject({ status: 'success', attachments: [{ media_type: 'image/jpeg', name: 'photo.jpg' }] });
    expect(sound).toMatchObject({ status: 'error', code: 'invalid_arguments' });
  });

  async function sendFile(way: (typeof WAYS)[number]): Promise<void> {
    const page = await tabs.open();
    const path = fileOf('big.bin', '', 2_000_000);
    page.once('filechooser', (chooser) => chooser.setFiles(path));
    const ended = await page.evaluate(
      async ({ to, way }) => {
        const client = new handspan.HandspanClient(to);
        client.registerTool(browser.pickFile);
        return say(client, way, 'call pick_file\nthen\n{results}');
      },
      { to: gateway(), way },
    );
    expect(results(ended)).toMatchObject([{ ...SUCCESS, attachments: [{ name: 'big.bin', bytes: 2_000_000 }] }]);
  }

  test.each(['invoke', 'stream'] as const)('of a client: a file of two megabytes gets through, by %s', sendFile);

  // the gateway takes messages of at most 1 MiB there, and closes with 1009
  test('of a client: a file of two megabytes gets through, by chat', () => sendFile('chat'));

  test('of a device: any conversation of the person can use them, and a no of the browser is told', async () => {
    const page = await tabs.open(['camera']);
    const ended = await page.evaluate(
      async ({ to }) => {
        const device = await new Promise<InstanceType<typeof Device>>((resolve) => {
          const made = new Device({
            url: to.baseUrl,
            token: to.token,
            label: 'page',
            onPermission: browser.askBrowser,
            onState: ({ status }) => status === 'online' && resolve(made),
          });
          for (const tool of browser.browserTools()) made.tool(tool);
          void made.run();
        });
        const client = new handspan.HandspanClient(to);
        try {
          return await say(client, 'invoke', 'call page__camera\ncall page__get_location\nthen\n{results}');
        } finally {
          device.close();
        }
      },
      { to: gateway() },
    );
    const [photo, place] = results(ended);
    expect(photo).toMatchObject({ status: 'success', attachments: [{ media_type: 'image/jpeg', name: 'photo.jpg' }] });
    expect(place).toMatchObject({ status: 'error', code: 'permission_denied_forever' });
    expect(place?.message).toContain("the browser's site settings");
  });
});
