// Walks through a case, whatever plays the device.
import { expect } from 'vitest';
import type { ChannelMessage } from '../../../src/device/channel-message.js';
import type { Decision, Json, JsonObject } from '../../../src/device/frames.js';
import { type Case, lean, Matching } from './cases.js';

/** A device under test, and the gateway's half of its link. Every wait is bounded. */
export interface Player {
  up(): Promise<void>;
  drop(): Promise<void>;
  say(frame: JsonObject): Promise<void>;
  /** The next frame of the device. */
  sent(): Promise<JsonObject>;
  /** What the device has sent besides, once it has done everything that it was asked for. */
  nothingMore(): Promise<JsonObject[]>;
  end(callId: string, how: JsonObject): Promise<void>;
  decide(permission: string, decision: Decision, howToEnable: string): Promise<void>;
  /** The person, who is being asked this, answers. */
  answer(questionId: string, said: JsonObject): Promise<void>;
  /** The intent of the login that the program was asked to begin for this call. */
  loginBegun(callId: string): Promise<string>;
  restart(): Promise<void>;
  unregister(name: string): Promise<void>;
  runs(tool: string): number;
  /** The program says this in its chat. */
  speak(text: string): Promise<void>;
  /** All events that it has heard of what it said; at least so many. */
  heard(count: number): Promise<Json[]>;
  /** All messages of agents that it was given; at least so many. */
  shown(count: number): Promise<Json[]>;
}

const MOST = 1024 * 1024;

/** Does every step; an error says which one can't be done. */
export async function walk(one: Case, player: Player): Promise<void> {
  const matching = new Matching();
  let most = MOST;
  for (const [number, step] of one.steps.entries()) {
    const where = `step ${number}: ${JSON.stringify(step)}`;
    const [kind = ''] = Object.keys(step);
    const given = step[kind] as JsonObject;
    switch (kind) {
      case 'link':
        await (step.link === 'up' ? player.up() : player.drop());
        break;
      case 'connect':
        await connect(player, given, where);
        most = takenBy(given);
        break;
      case 'gateway':
        await player.say(matching.filled(given) as JsonObject);
        if (given.type === 'connected') most = takenBy(given);
        break;
      case 'expect': {
        const sent = await player.sent();
        expect(new TextEncoder().encode(JSON.stringify(sent)).length, where).toBeLessThanOrEqual(most); // ws.md 5.12
        const frame = lean(sent);
        expect(matching.matches(lean(given), frame), `${where}: got ${JSON.stringify(frame)}`).toBe(true);
        break;
      }
      case 'handler':
        await player.end(String(given.id), given);
        break;
      case 'person':
        if ('question' in given) {
          const { question, says, ...more } = given;
          await player.answer(String(question), { decision: says ?? null, ...more });
        } else await player.decide(String(given.permission), given.says as Decision, String(given.how_to_enable ?? ''));
        break;
      case 'login':
        expect(await player.loginBegun(String(given.call_id)), where).toBe(given.intent);
        break;
      case 'restart':
        await player.restart();
        break;
      case 'unregister':
        await player.unregister(String(step.unregister));
        break;
      case 'say':
        await player.speak(String(step.say));
        break;
      case 'hears': {
        const heard = await player.heard((step.hears as Json[]).length);
        expect(matching.matches(step.hears as Json, heard), `${where}: heard ${JSON.stringify(heard)}`).toBe(true);
        break;
      }
      case 'shows': {
        const shown = await player.shown((step.shows as Json[]).length);
        expect(matching.matches(step.shows as Json, shown), `${where}: shown were ${JSON.stringify(shown)}`).toBe(true);
        break;
      }
      case 'runs': {
        expect(await player.nothingMore(), where).toEqual([]);
        const counts = Object.fromEntries(Object.keys(given).map((tool) => [tool, player.runs(tool)]));
        expect(counts, where).toEqual(given);
        break;
      }
      case 'quiet':
        expect(await player.nothingMore(), where).toEqual([]);
        break;
      default:
        throw new Error(`${where}: no such step`);
    }
  }
}

/** A message of an agent as a case has it. */
export function fieldsOf({ channel, chatId, content }: ChannelMessage): Json {
  return { channel, chat_id: chatId, content };
}

/** How many bytes of a message this gateway takes. */
function takenBy({ limits }: JsonObject): number {
  return Number((limits as JsonObject | undefined)?.message_bytes ?? MOST);
}

async function connect(player: Player, given: JsonObject, where: string): Promise<void> {
  await player.up();
  const [hello, tools] = [await player.sent(), await player.sent()];
  expect([hello.type, tools.type], where).toEqual(['connect', 'register_tools']);
  const usual = { capabilities: hello.capabilities, resume_token: 't1', grace_ms: 60000, resumed: false };
  await player.say({ type: 'connected', v: 1, message: 'Connection established', ...usual, ...given } as JsonObject);
}

/** What a handler returns, by the words of a case. */
export function returnedBy(returned: Json): unknown {
  const { $image: data, media_type: type } = (returned ?? {}) as JsonObject;
  if (typeof data !== 'string') return returned;
  return new Blob([Uint8Array.from(atob(data), (one) => one.charCodeAt(0))], { type: String(type) });
}
