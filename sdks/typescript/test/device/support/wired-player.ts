// The whole Device over a real socket; the gateway's half is a WebSocket server.
import { expect } from 'vitest';
import { Device } from '../../../src/device/device.js';
import type { Decision, Json, JsonObject } from '../../../src/device/frames.js';
import { LoginRequired } from '../../../src/device/login.js';
import type { PermissionAnswer } from '../../../src/device/permission.js';
import type { QuestionAnswer } from '../../../src/device/question.js';
import type { CallContext } from '../../../src/device/tool.js';
import { bounded, Queue } from './bounded.js';
import type { Case } from './cases.js';
import type { ServerLink, SocketServer } from './socket-server.js';
import { fieldsOf, type Player, returnedBy } from './walking.js';

export class WiredPlayer implements Player {
  private device!: Device;
  private running!: Promise<unknown>;
  private file: string | null = null;
  private alive = { isAlive: true };
  private link: ServerLink | undefined;
  private isConnected = false;
  private fences = 0;
  private readonly counts = new Map<string, number>();
  private orders = new Map<string, Queue<JsonObject>>();
  private decisions = new Map<string, Queue<PermissionAnswer>>();
  private answers = new Map<string, Queue<QuestionAnswer>>();
  private readonly logins = new Map<string, Queue<string>>();
  private events: Json[] = [];
  private messages: Json[] = [];
  private happenings = new Queue<true>();

  constructor(
    private readonly given: Case,
    private readonly server: SocketServer,
  ) {
    this.begin();
  }

  private begin(): void {
    const { state, label, role = 'device', concurrency = 1, messages = false } = this.given.client;
    const life = { isAlive: true };
    this.alive = life;
    this.orders = new Map();
    this.decisions = new Map();
    this.answers = new Map();
    this.events = [];
    this.messages = [];
    this.device = new Device({
      url: this.server.url,
      token: 'token',
      label,
      role,
      concurrency,
      state: state
        ? {
            load: () => this.file,
            save: (text) => {
              if (life.isAlive) this.file = text;
            },
          }
        : undefined,
      backoff: { first: 1, longest: 10 },
      onPermission: async ({ permission, signal }) => {
        const decision = await queueOf(this.decisions, permission).take();
        if (signal.aborted) queueOf(this.decisions, permission).put(decision); // it is for the next question
        return decision;
      },
      onLogin: ({ callId, intent }) => queueOf(this.logins, callId).put(intent),
      onQuestion: ({ id }) => queueOf(this.answers, id).take(),
      onChannelMessage: messages ? (message) => this.show(fieldsOf(message)) : undefined,
    });
    for (const { code = true, ...tool } of this.given.tools) {
      const handler = (_: unknown, context: CallContext) => this.code(tool.name, context);
      this.device.tool({ ...tool, handler: code ? handler : undefined });
    }
    this.running = this.device.run();
  }

  /** The code of every tool: does what the case says, when it says so. */
  private async code(tool: string, { callId, signal, progress }: CallContext): Promise<unknown> {
    const orders = queueOf(this.orders, callId);
    this.counts.set(tool, this.runs(tool) + 1);
    const stopped = new Promise<'stopped'>((resolve) => signal.addEventListener('abort', () => resolve('stopped')));
    for (;;) {
      const order = await Promise.race([orders.take(), stopped]);
      if (order === 'stopped') {
        queueOf(this.orders, `stopped ${callId}`).put({});
        throw signal.reason;
      }
      if ('returns' in order) return returnedBy(order.returns as Json);
      if (order.code === 'auth_required')
        throw new LoginRequired(String(order.raises), order as { hint?: string; intent?: string });
      if ('raises' in order)
        throw Object.assign(new Error(String(order.raises)), order.code ? { code: order.code } : {});
      progress(order.progress);
    }
  }

  loginBegun(callId: string): Promise<string> {
    return queueOf(this.logins, callId).take();
  }

  async up(): Promise<void> {
    this.link = await this.server.link();
    this.isConnected = false;
    expect(this.link.request.url).toBe('/prefix/ws/chat');
    expect(this.link.request.headers['sec-websocket-protocol']?.split(/, */)).toEqual(['handspan.v1', 'bearer.token']);
  }

  async drop(): Promise<void> {
    this.live.cut();
    this.link = undefined;
  }

  async say(frame: JsonObject): Promise<void> {
    this.isConnected ||= frame.type === 'connected';
    this.live.send(frame);
  }

  async sent(): Promise<JsonObject> {
    for (;;) {
      const frame = await this.live.frames.next('a frame');
      if (!isFence(frame)) return frame;
      this.live.send({ type: 'result_acknowledged', id: String(frame.id) });
    }
  }

  /** What comes before the answer to a request for a tool that does not exist. */
  async nothingMore(): Promise<JsonObject[]> {
    if (!this.link) return [];
    if (!this.isConnected) {
      await this.live.settled();
      return [];
    }
    const fence = `fence-${this.fences++}`;
    this.live.send({ type: 'tool_call_request', id: fence, name: 'no_such_tool', args: {} });
    const frames: JsonObject[] = [];
    for (;;) {
      const frame = await this.live.frames.next('the answer to a fence');
      if (frame.id === fence) break;
      if (!isFence(frame)) frames.push(frame);
    }
    this.live.send({ type: 'result_acknowledged', id: fence });
    return frames;
  }

  async end(callId: string, how: JsonObject): Promise<void> {
    if (how.stopped) await queueOf(this.orders, `stopped ${callId}`).next(`${callId} is told to stop`);
    else queueOf(this.orders, callId).put(how);
  }

  async decide(permission: string, decision: Decision, howToEnable: string): Promise<void> {
    queueOf(this.decisions, permission).put(howToEnable ? { decision, howToEnable } : decision);
  }

  async answer(questionId: string, said: JsonObject): Promise<void> {
    queueOf(this.answers, questionId).put(said as QuestionAnswer);
  }

  async restart(): Promise<void> {
    await this.close();
    this.link = undefined;
    this.server.links.clear();
    this.begin();
  }

  async unregister(name: string): Promise<void> {
    await this.live.settled();
    this.device.unregister(name);
  }

  runs(tool: string): number {
    return this.counts.get(tool) ?? 0;
  }

  async speak(text: string): Promise<void> {
    const events = this.device.say(text);
    void (async () => {
      for await (const event of events) {
        this.events.push({ ...event } as JsonObject);
        this.happenings.put(true);
      }
    })();
  }

  async heard(count: number): Promise<Json[]> {
    while (this.events.length < count) await this.happenings.next('an event');
    return this.events;
  }

  private show(message: Json): void {
    this.messages.push(message);
    this.happenings.put(true);
  }

  async shown(count: number): Promise<Json[]> {
    while (this.messages.length < count) await this.happenings.next('a message');
    return this.messages;
  }

  /** Kills it: what it would write while it ends is not written. */
  async close(): Promise<void> {
    this.alive.isAlive = false;
    this.link?.cut();
    this.device.close();
    await bounded(this.running, 'the end of the device');
  }

  private get live(): ServerLink {
    if (!this.link) throw new Error('the link is down');
    return this.link;
  }
}

function queueOf<T>(queues: Map<string, Queue<T>>, key: string): Queue<T> {
  const queue = queues.get(key) ?? new Queue<T>();
  queues.set(key, queue);
  return queue;
}

function isFence(frame: JsonObject): boolean {
  return String(frame.id).startsWith('fence-');
}
