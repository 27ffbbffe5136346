import { Connection } from './connection.js';
import type { TurnEvent } from './frames.js';
import type { DeviceOptions, DeviceState } from './options.js';
import { type DeviceTool, type OfferedTool, offered } from './tool.js';

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

  /** The label under which the gateway knows this device, once it was online. */
  get label(): string {
    return this.#connection?.peer.label ?? '';
  }

  /** Tools that the gateway did not take, and why. */
  get rejected(): Readonly<Record<string, string>> {
    return this.#connection?.peer.rejected ?? {};
  }

  /** Offer a tool, or another one under its name; at any time. */
  tool<Parameters extends object>(tool: DeviceTool<Parameters>): this {
    this.#tools.set(tool.name, offered(tool as DeviceTool));
    this.#changed(tool.name);
    return this;
  }

  /** The same as `tool`. */
  registerTool<Parameters extends object>(tool: DeviceTool<Parameters>): this {
    return this.tool(tool);
  }

  /** Take a tool back; false when there was none of this name. */
  unregister(name: string): boolean {
    const wasThere = this.#tools.delete(name);
    if (wasThere) this.#changed(name);
    return wasThere;
  }

  /**
   * Be connected, and come back after every drop. Resolves when it is closed for good, with the reason: by `close` or
   * the signal, or by a gateway that does not let this device in.
   */
  async run({ signal }: { signal?: AbortSignal } = {}): Promise<DeviceState> {
    if (this.#isRunning) throw new Error('This device runs already: `close` it before it is run again.');
    this.#isRunning = true;
    this.#isEnding = Boolean(signal?.aborted);
    const end = () => this.close();
    signal?.addEventListener('abort', end);
    const { state } = this.#options;
    let reason = '';
    try {
      this.#became('connecting', '');
      const became = this.#became.bind(this);
      this.#connection = new Connection(this.#options, this.#tools, await state?.load(), became);
      if (this.#isEnding) this.#connection.close();
      reason = await this.#connection.serve();
    } catch (error) {
      reason = String(error);
      throw error;
    } finally {
      signal?.removeEventListener('abort', end);
      state?.close?.();
      this.#isRunning = false;
      this.#became('closed', reason);
    }
    return this.#state;
  }

  /** Send what there is to send, tell handlers that run to stop, and let `run` end. */
  close(): void {
    this.#isEnding = true;
    if (this.#isRunning) this.#connection?.close();
  }

  /**
   * Say something in the session of a device with the role `chat`; gives what happens in the turn that answers it.
   * The last event is `ended`, whatever becomes of the link.
   */
  say(text: string): AsyncGenerator<TurnEvent, void> {
    if (this.#options.role !== 'chat' || !this.#isRunning || !this.#connection) {
      throw new Error("Only a device with the role 'chat' that runs can say something.");
    }
    return this.#connection.say(text);
  }

  #changed(name: string): void {
    if (this.#isRunning) this.#connection?.do(this.#connection.peer.changed(name));
  }

  #became(status: DeviceState['status'], reason: string): void {
    if (status === this.#state.status && reason === this.#state.reason) return;
    this.#state = { status, reason };
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
