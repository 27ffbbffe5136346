import { newId } from '../graph/ids.js';
import type { Action } from './actions.js';
import { Address } from './address.js';
import { Calls } from './calls.js';
import { readFrame, type TurnEvent, toolError } from './frames.js';
import { type Ears, Link, type LinkEnd, type WebSocketLike } from './link.js';
import { Memory } from './memory.js';
import type { DeviceOptions, DeviceState } from './options.js';
import { Peer } from './peer.js';
import type { OfferedTool } from './tool.js';
import { Turns } from './turns.js';
import { bearer, uploadTo } from './upload.js';

/** Bytes that may wait to be sent before progress is left out. */
const MOST_WAITING = 1024 * 1024;
const REFUSALS = ['SESSION_OWNER_MISMATCH', 'SESSION_BIND_FAILED']; // ws.md 1.8

/** What every device can do (ws.md 1.9). */
const CAN = ['resume', 'progress', 'cancel', 'deadline', 'parts', 'permissions', 'unregister', 'ack_batch'];

/** Hears where the connection is. */
export type Became = (status: DeviceState['status'], reason: string) => void;

/** A peer with everything that it needs, for as long as `serve` runs: the only composition. */
export class Connection implements Ears {
  readonly peer: Peer;
  #options: DeviceOptions;
  #address: Address;
  #memory: Memory;
  #became: Became;
  #turns = new Turns();
  #link: Link;
  #calls: Calls;
  #lane: Action[] = [];
  #isActing = false;
  #saved = '';
  #session: string;
  #refusal = '';
  #end = '';

  /** `kept` is what an earlier life wrote. */
  constructor(
    options: DeviceOptions,
    tools: ReadonlyMap<string, OfferedTool>,
    kept: string | null | undefined,
    became: Became,
  ) {
    const { role = 'device', label, prefix, concurrency = 1, token = '' } = options;
    const shown = options.onQuestion ? ['questions', 'question_kinds'] : [];
    const capabilities = role === 'chat' ? [...CAN, 'events', ...shown] : CAN;
    const hello = { type: 'connect', v: 1, role, label, prefix, capabilities, device_name: label ?? 'device' } as const;
    this.#options = options;
    this.#address = new Address(options.url);
    this.#memory = new Memory(kept);
    this.#became = became;
    this.#session = (role === 'chat' && options.session) || '';
    this.peer = new Peer(hello, tools, this.#memory, concurrency);
    const upload = uploadTo(this.#address, token);
    this.#calls = new Calls(this.peer, (actions) => this.do(actions), upload, options);
    this.#link = new Link(this, options.backoff, options.heartbeat);
  }

  /** Be there until `close`, or until the gateway ends it for good; gives the reason. */
  async serve(): Promise<string> {
    await this.#link.serve();
    this.#calls.close();
    this.do(this.peer.talk.lose(this.#end));
    await this.#save();
    return this.#end;
  }

  /** Send what there is to send, and end. */
  close(): void {
    this.#end ||= 'It was closed by this program.';
    this.do([{ do: 'close' }]);
  }

  /** Say something in the session; gives what happens in the turn that answers it. */
  say(text: string): AsyncGenerator<TurnEvent, void> {
    const id = newId();
    const events = this.#turns.listen(id);
    this.do(this.peer.say(text, id));
    return events;
  }

  /** Do this, after everything that is to be done before. */
  do(actions: Action[]): void {
    this.#lane.push(...actions);
    if (!this.#isActing) void this.#act();
  }

  // What the link asks and says.

  open(): WebSocketLike {
    const { token, webSocket = globalThis.WebSocket } = this.#options;
    // A browser can't send the header Authorization with a WebSocket (ws.md 1.2).
    return new webSocket(this.#address.socket(this.#session), ['handspan.v1', ...(token ? [`bearer.${token}`] : [])]);
  }

  /** A browser does not say why a socket was not opened, so the gateway is asked by HTTP. */
  async refused(): Promise<string | undefined> {
    try {
      const headers = bearer(this.#options.token ?? '');
      const { status } = await fetch(this.#address.http('/ws/chat'), { headers, signal: AbortSignal.timeout(10_000) });
      if (status === 401) return 'The gateway does not know this token (401): pair this device anew.';
      if (status === 403)
        return 'The gateway does not take connections from here (403): add this origin to its settings.';
    } catch {
      // It is not there, or does not tell pages of this origin: it is tried again.
    }
    return undefined;
  }

  opening(): void {
    this.#became('connecting', '');
  }

  opened(): void {
    this.do(this.peer.opened());
  }

  heard(text: string): void {
    const frame = readFrame(text);
    if (!frame) return;
    this.do(this.peer.heard(frame));
    if (frame.type === 'connected') {
      this.#link.settled();
      this.#became('online', '');
    } else if (frame.type === 'session_start' && this.#options.role === 'chat') {
      this.#session = frame.session_id; // it goes on there after a drop
    } else if (frame.type === 'error' && REFUSALS.includes(frame.code ?? '')) {
      this.#refusal = frame.message;
    }
  }

  dropped({ code, reason, isFinal }: LinkEnd, delay: number): void {
    this.#lane = this.#lane.filter((action) => action.do !== 'send'); // said anew on the next link
    this.peer.dropped();
    if (isFinal) this.#end ||= this.#refusal || reason || `The gateway ended the connection (${code}).`;
    else this.#became('waiting', `${reason || 'The link dropped'} (${code}); next try in ${Math.ceil(delay / 1000)} s`);
  }

  // The lane: everything is done in order, and nothing that has to be written first is done before it is written.

  async #act(): Promise<void> {
    this.#isActing = true;
    for (let action = this.#lane.shift(); action; action = this.#lane.shift()) {
      if (action.do === 'keep') {
        await this.#save();
      } else if (action.do === 'run' && action.isRecorded) {
        const problem = await this.#save();
        if (problem) this.#notRun(action.request.id, problem);
        else this.#step(action);
      } else {
        this.#step(action);
      }
    }
    this.#isActing = false;
  }

  #step(action: Action): void {
    switch (action.do) {
      case 'send':
        if (action.frame.type !== 'tool_progress' || this.#link.backlog < MOST_WAITING) {
          this.#link.send(JSON.stringify(action.frame));
        }
        break;
      case 'run':
        void this.#calls.start(action);
        break;
      case 'shrink':
        void this.#calls.shrink(action.answer);
        break;
      case 'watch':
        this.#calls.watch(action.id, action.ms);
        break;
      case 'stop':
        this.#calls.stop(action.id, action.reason);
        break;
      case 'ask':
        void this.#calls.ask(action.request);
        break;
      case 'question':
        void this.#calls.question(action.question, action.problem);
        break;
      case 'happened':
        this.#turns.happened(action.id, action.event);
        break;
      case 'close':
        this.#link.close();
    }
  }

  #notRun(id: string, problem: unknown): void {
    const text = `Nothing was run: this device can't write its state (${problem}).`;
    this.do(this.peer.finished(id, toolError(id, text, 'execution_failed')));
  }

  /** Write what has to outlive this page; gives what went wrong. */
  async #save(): Promise<unknown> {
    const { state } = this.#options;
    if (!state) return undefined;
    const text = this.#memory.encode();
    try {
      if (text !== this.#saved) await state.save(text);
      this.#saved = text;
      return undefined;
    } catch (error) {
      return error ?? 'unknown';
    }
  }
}
