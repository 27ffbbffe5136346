import type { Address } from './address.js';

/** The part of a WebSocket that is used here: browsers, Node and the package `ws` all have it. */
export interface WebSocketLike {
  readonly readyState: number;
  readonly bufferedAmount: number;
  send(text: string): void;
  close(code?: number): void;
  onopen: ((event: never) => void) | null;
  onmessage: ((event: never) => void) | null;
  onclose: ((event: never) => void) | null;
  onerror: ((event: never) => void) | null;
}

/** How long to wait before the next attempt, in milliseconds: twice as long each time, plus a random part. */
export interface Backoff {
  first?: number;
  longest?: number;
  /** The random part of the delay; it keeps many clients from connecting at the same moment. */
  spread?: number;
}

/** The backoff for this gateway. On the same computer few clients wait for it, and often a person does. */
export function usualBackoff(address: Address): Backoff {
  return address.isLocal ? { longest: 3000 } : {};
}

/** How a link ended. */
export interface LinkEnd {
  code: number;
  reason: string;
  /** No other attempt follows. */
  isFinal: boolean;
}

/** Opens sockets for the link, and gets what happens to it. */
export interface LinkListener {
  open(): WebSocketLike;
  /** Why no attempt will ever succeed; undefined when the next one may. */
  readRefusal(): Promise<string | undefined>;
  onOpening(): void;
  onOpen(): void;
  onMessage(text: string): void;
  /** Called once for every link, with the milliseconds until the next one. */
  onDrop(end: LinkEnd, delay: number): void;
}

const OPEN = 1;
const ENDS_FOR_GOOD = [1000, 1008, 4001]; // ws.md 9.2
const TIME_TO_CLOSE = 2000;

/** A link to the gateway that opens again after a drop. It does not read the messages. */
export class Link {
  #listener: LinkListener;
  #backoff: Backoff;
  #heartbeat: number;
  #socket: WebSocketLike | undefined;
  #attempt = 0;
  #isClosed = false;
  #wake = () => {};
  #closing: ReturnType<typeof setTimeout> | undefined;
  #end: (end: { code: number; reason: string }) => void = () => {};

  /** `heartbeat`: milliseconds without a message after which a ping is sent. */
  constructor(listener: LinkListener, backoff: Backoff = {}, heartbeat = 25_000) {
    this.#listener = listener;
    this.#backoff = backoff;
    this.#heartbeat = heartbeat;
  }

  /** Keep the link open until `close`, or until it is closed for good. */
  async serve(): Promise<void> {
    globalThis.addEventListener?.('online', this.#retryNow);
    try {
      while (!this.#isClosed) {
        this.#listener.onOpening();
        if (this.#isClosed) return; // by the listener
        const end = await this.#runLink();
        const { first = 1000, longest = 30_000, spread = 0.5 } = this.#backoff;
        const delay = Math.min(longest, first * 2 ** this.#attempt++) * (1 + spread * Math.random());
        this.#listener.onDrop(end, delay);
        if (end.isFinal || this.#isClosed) return;
        await this.#pause(delay);
      }
    } finally {
      clearTimeout(this.#closing);
      globalThis.removeEventListener?.('online', this.#retryNow);
    }
  }

  /** The gateway has answered: the next drop begins with the shortest delay. */
  markConnected(): void {
    this.#attempt = 0;
  }

  send(text: string): void {
    if (this.#socket?.readyState === OPEN) this.#socket.send(text);
  }

  /** Bytes that wait to be sent. */
  get backlog(): number {
    return this.#socket?.bufferedAmount ?? 0;
  }

  /** Close the link, or stop trying to open one; messages sent before are sent. */
  close(): void {
    this.#isClosed = true;
    this.#socket?.close(1000);
    this.#closing = setTimeout(() => this.#end({ code: 1000, reason: '' }), TIME_TO_CLOSE);
    this.#wake();
  }

  async #runLink(): Promise<LinkEnd> {
    let wasOpen = false;
    let socket: WebSocketLike;
    try {
      socket = this.#listener.open();
    } catch (error) {
      return { code: 0, reason: String(error), isFinal: true }; // no page of this kind may open it
    }
    let end = await new Promise<{ code: number; reason: string }>((resolve) => {
      let beat: ReturnType<typeof setInterval> | undefined;
      let isSilent = false;
      this.#end = (how) => {
        clearInterval(beat);
        this.#socket = undefined;
        resolve(how);
      };
      beat = setInterval(() => {
        // A browser shows no pings of the protocol, so a dead link looks like a quiet one.
        if (isSilent) {
          socket.close();
          this.#end({ code: 1006, reason: 'the gateway is silent' });
        }
        isSilent = true;
        this.send('{"type":"ping"}'); // ws.md 2.6; a gateway that does not know it answers, too
      }, this.#heartbeat);
      this.#socket = socket;
      socket.onopen = () => {
        wasOpen = true;
        this.#listener.onOpen();
      };
      socket.onmessage = ({ data }: { data: unknown }) => {
        isSilent = false;
        if (typeof data === 'string' && this.#socket === socket) this.#listener.onMessage(data);
      };
      socket.onclose = ({ code, reason }: { code: number; reason: string }) => {
        if (this.#socket === socket) this.#end({ code, reason });
      };
      socket.onerror = () => {
        // Some sockets get no close event when they could not be opened.
        if (!wasOpen && this.#socket === socket) this.#end({ code: 1006, reason: 'no gateway answers there' });
      };
    });
    const refusal =
      wasOpen || this.#isClosed ? undefined : await Promise.race([this.#listener.readRefusal(), this.#waitForWake()]);
    if (refusal) end = { code: 1008, reason: refusal };
    return { ...end, isFinal: this.#isClosed || ENDS_FOR_GOOD.includes(end.code) };
  }

  #retryNow = (): void => this.#wake();

  async #pause(ms: number): Promise<void> {
    let timer: ReturnType<typeof setTimeout> | undefined;
    const passed = new Promise((resolve) => {
      timer = setTimeout(resolve, ms);
    });
    await Promise.race([passed, this.#waitForWake()]);
    clearTimeout(timer);
  }

  #waitForWake(): Promise<undefined> {
    return new Promise((resolve) => {
      this.#wake = () => resolve(undefined);
    });
  }
}
