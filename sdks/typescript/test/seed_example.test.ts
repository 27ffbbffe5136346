// The complete example of the seed, run as it stands there: only the import and the name of the class are changed, and
// the gateway's address and token are ours. `navigator` is what a browser would have.
import { afterAll, beforeAll, expect, test, vi } from 'vitest';
import { HandspanClient, Message } from '../src/index.js';
import { TestGateway } from './support/gateway.js';

let gateway: TestGateway;
beforeAll(async () => {
  gateway = await TestGateway.start();
  const languages = ['sv-SE', 'en'];
  vi.stubGlobal('navigator', { language: 'sv-SE', languages, clipboard: { readText: async () => 'copied words' } });
});
afterAll(async () => {
  vi.unstubAllGlobals();
  await gateway.close();
});

test("the seed's complete example", async () => {
  const client = new HandspanClient({ baseUrl: gateway.url, authToken: gateway.token });

  // 1. Register tools
  client.registerTool({
    node: 'tools',
    name: 'read_clipboard',
    description: 'Read the current system clipboard content',
    parameters: {
      type: 'object',
      properties: {},
      required: [],
    },
    handler: async () => {
      return { text: await navigator.clipboard.readText() };
    },
  });
  client.registerTool({
    node: 'tools',
    name: 'get_browser_locale',
    description: 'Get the browser locale and preferred language',
    parameters: {
      type: 'object',
      properties: {},
      required: [],
    },
    handler: async () => ({
      locale: navigator.language,
      languages: navigator.languages,
    }),
  });

  // 2. Send tool definitions to the server
  const made = await client.setup();
  expect(made.data).toMatchObject({ success: true, registered_tools: 2 });

  // 3. Invoke — tool calls are handled automatically
  const result = await client.invoke([
    Message.text_message('call read_clipboard\ncall get_browser_locale\nthen\n{results}'),
  ]);

  expect(result.iterations).toBe(2); // Will be > 1 if tools were called
  const [clipboard, locale] = JSON.parse(result.messages.at(-1)?.text() ?? '');
  expect(clipboard.result).toEqual({ text: 'copied words' });
  expect(locale.result).toEqual({ locale: 'sv-SE', languages: ['sv-SE', 'en'] });
});
