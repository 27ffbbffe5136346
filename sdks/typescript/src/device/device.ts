import { Connection } from './connection.js';
import type { MessageOptions, TurnEvent } from './frames.js';
import type { DeviceOptions, DeviceState } from './options.js';
import { type DeviceTool, type OfferedTool, withOffer } from './tool.js';

/**
 * Offers the functions of a page or a program as tools to the gateway's agents, over WebSocket (protocol/ws.md).
 *
 *     const device = new Device({ url: 'http://127.0.0.1:42617', token, label: 'page' });
 *     device.tool({ name: 'title', description: "The page's title.", handler: () => document.title });
 *     await device.run();
 */
export class Device {
  #options: DeviceOptions;
  #tools = new Map<string, OfferedTool>();
  #state: DeviceState = { status: 'closed', reason: 'It was not started.' };
  #connection: Connection | undefined;
  #isRunning = false;
  #isEnding = false;

  constructor(options: DeviceOptions) {
    this.#options = options;
    if (!isAddress(options.url)) {
      throw new TypeError(`'${options.url}' is no gateway's address: write it like 'http://127.0.0.1:42617'.`);
    }
    if (!(options.webSocket ?? globalThis.WebSocket)) {
      throw new TypeError('There is no WebSocket here: give one as `webSocket` (Node 20: that of the package ws).');
    }
    if (!/^[!#$%&'*+.^_`|~\w-]*$/.test(options.token ?? '')) {
      throw new TypeError('This is no token of a gateway: it has characters that no sub-protocol may have.');
    }
  }

  get state(): DeviceState {
    return this.#state;
  }

  /** The label with which the gateway knows this device; empty before the first connection. */
  get label(): string {
    return this.#connection?.state.label ?? '';
  }

  /** Why the gateway knows this device by another label than the one that it asked for; empty if it does not. */
  get notice(): string {
    return this.#connection?.state.notice ?? '';
  }

  /** Tools that the gateway did not take, or has taken away, and why. */
  get rejected(): Readonly<Record<string, string>> {
    return this.#connection?.state.rejected ?? {};
  }

  /** Offer a tool, or replace the tool of its name; at any time. */
  tool<Parameters extends object>(tool: DeviceTool<Parameters>): this {
    this.#tools.set(tool.name, withOffer(tool as DeviceTool));
    this.#changeTool(tool.name);
    return this;
  }

  /** The same as `tool`. */
  registerTool<Parameters extends object>(tool: DeviceTool<Parameters>): this {
    return this.tool(tool);
  }

  /** Remove a tool; false when no tool has this name. */
  unregister(name: string): boolean {
    const wasThere = this.#tools.delete(name);
    if (wasThere) this.#changeTool(name);
    return wasThere;
  }

  /**
   * Stay connected, and connect again after every drop. Resolves when it is closed for good, with the reason: by `close`,
   * by the signal, or by a gateway that does not accept this device.
   */
  async run({ signal }: { signal?: AbortSignal } = {}): Promise<DeviceState> {
    if (this.#isRunning) throw new Error('This device runs already: `close` it before it is run again.');
    this.#isRunning = true;
    this.#isEnding = Boolean(signal?.aborted);
    const end = () => this.close();
    signal?.addEventListener('abort', end);
    const { state } = this.#options;
    let reason = '';
    let code: number | undefined;
    try {
      this.#setState('connecting', '');
      const onState = this.#setState.bind(this);
      this.#connection = new Connection(this.#options, this.#tools, await state?.load(), onState);
      if (this.#isEnding) this.#connection.close();
      ({ reason, code } = await this.#connection.serve());
    } catch (error) {
      reason = String(error);
      throw error;
    } finally {
      signal?.removeEventListener('abort', end);
      state?.close?.();
      this.#isRunning = false;
      this.#setState('closed', reason, code);
    }
    return this.#state;
  }

  /** Send all frames that wait, stop the handlers, and end `run`. */
  close(): void {
    this.#isEnding = true;
    if (this.#isRunning) this.#connection?.close();
  }

  /**
   * Send a message in the session of a device with the role `chat`; yields the events of the turn that answers it.
   * The last event is `ended`, also when the link drops.
   */
  say(text: string, options: MessageOptions & { id?: string } = {}): AsyncGenerator<TurnEvent, void> {
    return this.#chat().send(text, options);
  }

  /** Stop the running turn of a chat's session. What arrived is kept. */
  abort(): void {
    this.#chat().request('abort');
  }

  /** Drop the last answer of a chat's session, and answer the last message again. */
  regenerate(): void {
    this.#chat().request('regenerate');
  }

  #chat(): Connection {
    if (this.#options.role !== 'chat' || !this.#isRunning || !this.#connection) {
      throw new Error(
        "Only a running device with the role 'chat' can send messages: set `role: 'chat'` and call `run`.",
      );
    }
    return this.#connection;
  }

  #changeTool(name: string): void {
    if (this.#isRunning) this.#connection?.add(this.#connection.state.changeTool(name));
  }

  #setState(status: DeviceState['status'], reason: string, code?: number): void {
    if (status === this.#state.status && reason === this.#state.reason) return;
    this.#state = { status, reason, ...(code !== undefined && { code }) };
    void this.#tell();
  }

  /** Tells the program of the state. What it throws is its own: the link stays. */
  async #tell(): Promise<void> {
    this.#options.onState?.(this.#state);
  }
}

function isAddress(text: string): boolean {
  try {
    const { protocol, username, search, hash } = new URL(text, globalThis.location?.href);
    return /^(http|ws)s?:$/.test(protocol) && !username && !search && !hash;
  } catch {
    return false;
  }
}
