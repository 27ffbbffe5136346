// What runs in the page: the SDK in reach of the tests, and a way to call a ready-made tool as the SDK would.
import * as browser from '../../../src/browser/index.js';
import { askBrowser, type BrowserTool, BrowserToolError, browserTools } from '../../../src/browser/index.js';
import { Device } from '../../../src/device/device.js';
import * as handspan from '../../../src/index.js';
import * as webmcp from '../../../src/webmcp/index.js';

/** How a call in the page ended, in words that can leave it. */
export interface Outcome {
  value?: unknown;
  file?: { name: string; type: string; size: number; head: number[] };
  error?: { code: string; reason: string; message: string };
}

const opened: MediaStreamTrack[] = [];
const browserMedia = navigator.mediaDevices as MediaDevices | undefined;
if (browserMedia !== undefined) {
  const open = browserMedia.getUserMedia.bind(browserMedia);
  browserMedia.getUserMedia = async (constraints) => {
    const stream = await open(constraints);
    opened.push(...stream.getTracks());
    return stream;
  };
}

/** Runs a ready-made tool; with `abortAfter` the call is cancelled after so many milliseconds. */
async function call(name: string, args: unknown, abortAfter?: number): Promise<Outcome> {
  const ending = new AbortController();
  if (abortAfter !== undefined) {
    setTimeout(() => ending.abort(), abortAfter);
  }
  try {
    const tool = browserTools().find((each): each is BrowserTool<never> => each.name === name);
    if (tool === undefined) throw new Error(`no tool ${name}`);
    return await told(await tool.handler(args, { signal: ending.signal }));
  } catch (error) {
    if (!(error instanceof BrowserToolError)) throw error;
    return { error: { code: error.code, reason: error.reason, message: error.message } };
  }
}

async function told(value: unknown): Promise<Outcome> {
  if (!(value instanceof File)) {
    return { value };
  }
  const head = [...new Uint8Array(await value.slice(0, 4).arrayBuffer())];
  return { file: { name: value.name, type: value.type, size: value.size, head } };
}

/** How a run ended, in words that can leave the page. */
export interface Ended {
  text: string;
  iterations: number;
  meta: handspan.Meta;
  isLimit: boolean;
  /** The kinds of what came on the way; of `invoke` nothing does. */
  events: string[];
}

/** The ways to talk to the agent. */
export type Way = 'invoke' | 'stream' | 'chat';

/** Says something in one of the ways. */
async function say(
  client: handspan.HandspanClient,
  way: Way,
  text: string,
  options: handspan.RunOptions = {},
): Promise<Ended> {
  const events: string[] = [];
  const result = way === 'invoke' ? await client.invoke(text, options) : await read(client, way, text, options, events);
  const said = result.messages.filter((message) => message.role === 'assistant').map((message) => message.text());
  const { iterations, meta, recursion_limit_reached: isLimit } = result;
  return { text: said.at(-1) ?? '', iterations, meta, isLimit, events };
}

async function read(
  client: handspan.HandspanClient,
  way: 'stream' | 'chat',
  text: string,
  options: handspan.RunOptions,
  events: string[],
): Promise<handspan.RunResult> {
  const chat = way === 'chat' ? client.chat(options) : undefined;
  const running = chat?.send(text) ?? client.stream(text, options);
  try {
    for (;;) {
      const next = await running.next();
      if (next.done) return next.value;
      events.push(next.value.event);
    }
  } finally {
    chat?.close();
  }
}

/** What the tests find in the page. */
export interface InPage {
  readonly handspan: typeof handspan;
  readonly browser: typeof browser;
  readonly Device: typeof Device;
  readonly webmcp: typeof webmcp;
  readonly say: typeof say;
  readonly call: typeof call;
}

Object.assign(globalThis, { handspan, browser, Device, askBrowser, call, opened, say, webmcp });
