import { newId } from '../graph/ids.js';
import type { Action } from './actions.js';
import { Address } from './address.js';
import { CallRunner } from './calls.js';
import type { ChannelMessage } from './channel-message.js';
import { ClientState } from './client-state.js';
import { type MessageOptions, readFrame, type TurnEvent, toolError } from './frames.js';
import { Link, type LinkEnd, type LinkListener, usualBackoff, type WebSocketLike } from './link.js';
import { CallMemory } from './memory.js';
import type { DeviceOptions, DeviceState } from './options.js';
import type { OfferedTool } from './tool.js';
import { TurnStreams } from './turns.js';
import { bearer, uploadTo } from './upload.js';

/** Bytes that may wait to be sent before progress is left out. */
const MAX_WAITING = 1024 * 1024;
const REFUSALS = ['SESSION_OWNER_MISMATCH', 'SESSION_BIND_FAILED']; // ws.md 1.8

/** The capabilities of every device (ws.md 1.9). */
const CAN = ['resume', 'progress', 'cancel', 'deadline', 'parts', 'permissions', 'unregister', 'ack_batch'];

/** Gets every change of the connection's state. */
export type StateListener = (status: DeviceState['status'], reason: string) => void;

/** The connection of one device: `ClientState` decides, the link carries frames, `CallRunner` runs handlers. */
export class Connection implements LinkListener {
  readonly state: ClientState;
  #options: DeviceOptions;
  #address: Address;
  #memory: CallMemory;
  #onState: StateListener;
  #turns = new TurnStreams();
  #link: Link;
  #calls: CallRunner;
  #queue: Action[] = [];
  #isWorking = false;
  #saved = '';
  #session: string;
  #refusal = '';
  #end = '';
  #code: number | undefined;

  /** `saved` is the state that an earlier page wrote. */
  constructor(
    options: DeviceOptions,
    tools: ReadonlyMap<string, OfferedTool>,
    saved: string | null | undefined,
    onState: StateListener,
  ) {
    const { role = 'device', label, prefix, concurrency = 1, token = '' } = options;
    const asking = options.onQuestion ? ['questions', 'question_kinds'] : [];
    const own = [...CAN, ...(options.onLogin ? ['login'] : []), ...(options.onChannelMessage ? ['messages'] : [])];
    const capabilities = role === 'chat' ? [...own, 'events', ...asking] : own;
    const introduction = {
      type: 'connect',
      v: 1,
      role,
      label,
      prefix,
      capabilities,
      device_name: label ?? 'device',
    } as const;
    this.#options = options;
    this.#address = new Address(options.url);
    this.#memory = new CallMemory(saved);
    this.#onState = onState;
    this.#session = (role === 'chat' && options.session) || '';
    this.state = new ClientState(introduction, tools, this.#memory, concurrency);
    const upload = uploadTo(this.#address, token);
    this.#calls = new CallRunner(this.state, (actions) => this.add(actions), upload, options);
    this.#link = new Link(this, { ...usualBackoff(this.#address), ...options.backoff }, options.heartbeat);
  }

  /** Stay connected until `close`, or until the gateway ends it for good; resolves to the reason and the gateway's code. */
  async serve(): Promise<{ reason: string; code?: number | undefined }> {
    await this.#link.serve();
    this.#calls.close();
    this.add(this.state.chat.loseTurns(this.#end));
    await this.#save();
    return { reason: this.#end, code: this.#code };
  }

  /** Send all frames that wait, and end. */
  close(): void {
    this.#end ||= 'It was closed by this program.';
    this.add([{ do: 'close' }]);
  }

  /** Send a message in the session; yields the events of the turn that answers it. */
  send(
    text: string,
    { id = newId(), ...options }: MessageOptions & { id?: string } = {},
  ): AsyncGenerator<TurnEvent, void> {
    const events = this.#turns.listen(id);
    this.add(this.state.sendMessage(text, id, options));
    return events;
  }

  /** Send a frame that is not kept for the next link. */
  request(type: 'abort' | 'regenerate'): void {
    this.add([{ do: 'send', frame: { type } }]);
  }

  /** Add actions to the queue. */
  add(actions: Action[]): void {
    this.#queue.push(...actions);
    if (!this.#isWorking) void this.#work();
  }

  // Called by the link.

  open(): WebSocketLike {
    const { token, webSocket = globalThis.WebSocket } = this.#options;
    // A browser can't send the header Authorization with a WebSocket (ws.md 1.2).
    return new webSocket(this.#address.socket(this.#session, this.#options.agent), [
      'handspan.v1',
      ...(token ? [`bearer.${token}`] : []),
    ]);
  }

  /** Why the gateway refuses this device. A browser does not tell it of a WebSocket, so this asks over HTTP. */
  async readRefusal(): Promise<string | undefined> {
    try {
      const headers = bearer(this.#options.token ?? '');
      const answer = await fetch(this.#address.http('/ws/chat'), { headers, signal: AbortSignal.timeout(10_000) });
      if (answer.status === 401) return 'The gateway does not know this token (401): pair this device anew.';
      // The host, the origin or the scopes of the token: the gateway says which.
      if (answer.status === 403) return `The gateway does not admit this device (403). ${await readReason(answer)}`;
    } catch {
      // No answer, or none for pages of this origin: the link is tried again.
    }
    return undefined;
  }

  onOpening(): void {
    this.#onState('connecting', '');
  }

  onOpen(): void {
    this.add(this.state.openLink());
  }

  onMessage(text: string): void {
    const frame = readFrame(text);
    if (!frame) return;
    if (frame.type === 'event' && frame.seq > (this.state.chat.lastEvent ?? 0)) {
      void this.#tell(frame.event, frame.turn ?? '');
    }
    this.add(this.state.receive(frame));
    if (frame.type === 'connected') {
      this.#link.markConnected();
      this.#onState('online', '');
    } else if (frame.type === 'session_start' && this.#options.role === 'chat') {
      this.#session = frame.session_id; // the next link continues it
    } else if (frame.type === 'error' && REFUSALS.includes(frame.code ?? '')) {
      this.#refusal = frame.message;
    }
  }

  onDrop({ code, reason, isFinal }: LinkEnd, delay: number): void {
    this.#queue = this.#queue.filter((action) => action.do !== 'send'); // the next link sends them anew
    this.state.dropLink();
    if (isFinal && !this.#end) this.#code = code || undefined; // 0: no socket could be made
    if (isFinal) this.#end ||= this.#refusal || reason || `The gateway ended the connection (${code}).`;
    else
      this.#onState('waiting', `${reason || 'The link dropped'} (${code}); next try in ${Math.ceil(delay / 1000)} s`);
  }

  // The queue: actions run in order, and an action that has to be written first waits until it is.

  async #work(): Promise<void> {
    this.#isWorking = true;
    for (let action = this.#queue.shift(); action; action = this.#queue.shift()) {
      if (action.do === 'save') {
        await this.#save();
      } else if (action.do === 'run' && action.isRecorded) {
        const problem = await this.#save();
        if (problem) this.#notRun(action.request.id, problem);
        else this.#doNow(action);
      } else {
        this.#doNow(action);
      }
    }
    this.#isWorking = false;
  }

  #doNow(action: Action): void {
    switch (action.do) {
      case 'send':
        if (action.frame.type !== 'tool_progress' || this.#link.backlog < MAX_WAITING) {
          this.#link.send(JSON.stringify(action.frame));
        }
        break;
      case 'run':
        void this.#calls.start(action);
        break;
      case 'shrink':
        void this.#calls.shrink(action.answer);
        break;
      case 'timeout':
        this.#calls.setCallTimeout(action.id, action.ms);
        break;
      case 'stop':
        this.#calls.stop(action.id, action.reason);
        break;
      case 'ask':
        void this.#calls.ask(action.request);
        break;
      case 'login':
        void this.#calls.beginLogin(action.request);
        break;
      case 'question':
        void this.#calls.question(action.question, action.problem);
        break;
      case 'event':
        this.#turns.deliver(action.id, action.event);
        break;
      case 'message':
        void this.#show(action.message);
        break;
      case 'close':
        this.#link.close();
    }
  }

  /** Give the program a message of an agent. What the program throws is its own: the queue goes on. */
  async #show(message: ChannelMessage): Promise<void> {
    this.#options.onChannelMessage?.(message);
  }

  /** The same for an event: the turn goes on for its other listeners. */
  async #tell(event: TurnEvent, turn: string): Promise<void> {
    this.#options.onEvent?.(event, turn);
  }

  #notRun(id: string, problem: unknown): void {
    const text = `Nothing was run: this device can't write its state (${problem}).`;
    this.add(this.state.finishCall(id, toolError(id, text, 'execution_failed')));
  }

  /** Write the call memory; resolves to the error, if there is one. */
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

/** The sentence with which the gateway refuses. */
async function readReason(answer: Response): Promise<string> {
  const { error } = (await answer.json()) as { error: string };
  return error;
}
