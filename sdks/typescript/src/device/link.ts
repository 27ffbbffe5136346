/** The part of a WebSocket that is used; that of browsers, of Node and of the package `ws` all have it. */
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

/** How long to wait before coming back, in milliseconds: doubled each time, and spread. */
export interface Backoff {
  first?: number;
  longest?: number;
  /** The part of the delay that is added by chance, so that not everybody comes at once. */
  spread?: number;
}

/** How a link ended. */
export interface LinkEnd {
  code: number;
  reason: string;
  /** It will not come back. */
  isFinal: boolean;
}

/** Who opens links, and hears what becomes of them. */
export interface Ears {
  open(): WebSocketLike;
  /** Why a link that could not be opened never will be; nothing when it may. */
  refused(): Promise<string | undefined>;
  opening(): void;
  opened(): void;
  heard(text: string): void;
  /** Told once for every link, with the milliseconds until the next one. */
  dropped(end: LinkEnd, delay: number): void;
}

const OPEN = 1;
const ENDS_FOR_GOOD = [1000, 1008]; // ws.md 9.2
const TIME_TO_CLOSE = 2000;

/** A link to the gateway that comes back by itself. It knows nothing of what is said. */
export class Link {
  #ears: Ears;
  #backoff: Backoff;
  #heartbeat: number;
  #socket: WebSocketLike | undefined;
  #attempt = 0;
  #isClosed = false;
  #wake = () => {};
  #closing: ReturnType<typeof setTimeout> | undefined;
  #end: (end: { code: number; reason: string }) => void = () => {};

  /** `heartbeat`: milliseconds of silence after which the gateway is asked for a word. */
  constructor(ears: Ears, backoff: Backoff = {}, heartbeat = 25_000) {
    this.#ears = ears;
    this.#backoff = backoff;
    this.#heartbeat = heartbeat;
  }

  /** Keep the link up until `close`, or until it is ended for good. */
  async serve(): Promise<void> {
    globalThis.addEventListener?.('online', this.#hurry);
    try {
      while (!this.#isClosed) {
        this.#ears.opening();
        if (this.#isClosed) return; // by whoever heard of it
        const end = await this.#once();
        const { first = 1000, longest = 30_000, spread = 0.5 } = this.#backoff;
        const delay = Math.min(longest, first * 2 ** this.#attempt++) * (1 + spread * Math.random());
        this.#ears.dropped(end, delay);
        if (end.isFinal || this.#isClosed) return;
        await this.#pause(delay);
      }
    } finally {
      clearTimeout(this.#closing);
      globalThis.removeEventListener?.('online', this.#hurry);
    }
  }

  /** The gateway has answered: the next drop is a new one. */
  settled(): void {
    this.#attempt = 0;
  }

  send(text: string): void {
    if (this.#socket?.readyState === OPEN) this.#socket.send(text);
  }

  /** Bytes that wait to be sent. */
  get backlog(): number {
    return this.#socket?.bufferedAmount ?? 0;
  }

  /** End it, from wherever it is; what was sent before is sent. */
  close(): void {
    this.#isClosed = true;
    this.#socket?.close(1000);
    this.#closing = setTimeout(() => this.#end({ code: 1000, reason: '' }), TIME_TO_CLOSE);
    this.#wake();
  }

  async #once(): Promise<LinkEnd> {
    let wasOpen = false;
    let socket: WebSocketLike;
    try {
      socket = this.#ears.open();
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
        // Pings are not seen in a browser, so a link that is dead at one end looks like a quiet one.
        if (isSilent) {
          socket.close();
          this.#end({ code: 1006, reason: 'the gateway is silent' });
        }
        isSilent = true;
        this.send('{"type":"ping"}'); // ws.md 2.6; whoever does not know it answers too
      }, this.#heartbeat);
      this.#socket = socket;
      socket.onopen = () => {
        wasOpen = true;
        this.#ears.opened();
      };
      socket.onmessage = ({ data }: { data: unknown }) => {
        isSilent = false;
        if (typeof data === 'string' && this.#socket === socket) this.#ears.heard(data);
      };
      socket.onclose = ({ code, reason }: { code: number; reason: string }) => {
        if (this.#socket === socket) this.#end({ code, reason });
      };
      socket.onerror = () => {
        // Some are never closed when they could not be opened.
        if (!wasOpen && this.#socket === socket) this.#end({ code: 1006, reason: 'nobody answers there' });
      };
    });
    const refusal = wasOpen || this.#isClosed ? undefined : await Promise.race([this.#ears.refused(), this.#woken()]);
    if (refusal) end = { code: 1008, reason: refusal };
    return { ...end, isFinal: this.#isClosed || ENDS_FOR_GOOD.includes(end.code) };
  }

  #hurry = (): void => this.#wake();

  async #pause(ms: number): Promise<void> {
    let timer: ReturnType<typeof setTimeout> | undefined;
    const passed = new Promise((resolve) => {
      timer = setTimeout(resolve, ms);
    });
    await Promise.race([passed, this.#woken()]);
    clearTimeout(timer);
  }

  #woken(): Promise<undefined> {
    return new Promise((resolve) => {
      this.#wake = () => resolve(undefined);
    });
  }
}
