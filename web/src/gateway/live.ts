import { type Signal, signal, useSignal } from '@preact/signals';
import type { LiveTopic, LiveUpdate } from 'handspan/rest';
import { useEffect, useMemo } from 'preact/hooks';
import { messageOf, rest } from './rest.ts';

/** Whether live updates arrive; the lists of a page without them may be old. */
export const isLive = signal(false);

type Listener = (update: LiveUpdate) => void;
const listeners = new Set<Listener>();
let stream: AbortController | undefined;

/** Calls the listener with every update of every list, until the returned function is called. */
export function onUpdate(listener: Listener): () => void {
  listeners.add(listener);
  return () => listeners.delete(listener);
}

/**
 * Opens the stream of updates. A page in the background gives it back: a browser has few connections for one server.
 * `onRefused` is called when the gateway does not take this browser any more.
 */
export function followUpdates(onRefused: () => void): void {
  const follow = () => {
    if (document.visibilityState === 'hidden') {
      stream?.abort();
      stream = undefined;
      isLive.value = false;
    } else if (!stream) {
      stream = new AbortController();
      void read(stream.signal).catch(onRefused);
    }
  };
  document.addEventListener('visibilitychange', follow);
  follow();
}

async function read(until: AbortSignal): Promise<void> {
  try {
    for await (const update of rest.live(until, () => (isLive.value = false))) {
      if (until.aborted) return;
      isLive.value = true;
      for (const listener of [...listeners]) listener(update);
    }
  } finally {
    if (!until.aborted) isLive.value = false;
  }
}

/** What the gateway answered, and whether it is being asked. */
export interface Loaded<Data> {
  data: Signal<Data | undefined>;
  /** Why the last request failed; empty when it did not. */
  problem: Signal<string>;
  reload(): Promise<void>;
}

/** Milliseconds between two requests of one list, while updates come. */
const PAUSE = 500;

/** One list that is read again when it changes, with a pause between two requests. */
export class Reader<Data> {
  #asked = 0;
  #isReading = false;
  #isStale = false;
  #timer: ReturnType<typeof setTimeout> | undefined;
  #newest: Promise<void> | undefined;

  constructor(
    readonly data: Signal<Data | undefined>,
    readonly problem: Signal<string>,
    public load: () => Promise<Data>,
    readonly pause: number = PAUSE,
  ) {}

  /** Reads it, as soon as the request before has ended and the pause after it is over. */
  async read(): Promise<void> {
    if (this.#isReading || this.#timer) this.#isStale = true;
    else await this.readNow();
  }

  /**
   * Reads it at once: the person has changed something. An answer that was asked for before is not shown any more. Ends
   * when the newest answer is shown.
   */
  async readNow(): Promise<void> {
    this.#newest = this.#readOnce();
    for (let reading: Promise<void> | undefined; reading !== this.#newest; ) {
      reading = this.#newest;
      await reading;
    }
  }

  async #readOnce(): Promise<void> {
    this.close();
    const number = this.#asked;
    this.#isReading = true;
    try {
      const data = await this.load();
      if (number === this.#asked) this.#show(data, '');
    } catch (error) {
      if (number === this.#asked) this.#show(this.data.value, messageOf(error));
    }
    if (number !== this.#asked) return;
    this.#isReading = false;
    this.#timer = setTimeout(() => this.#continue(), this.pause);
  }

  close(): void {
    this.#asked += 1;
    this.#isReading = false;
    this.#isStale = false;
    clearTimeout(this.#timer);
    this.#timer = undefined;
  }

  #show(data: Data | undefined, problem: string): void {
    this.data.value = data;
    this.problem.value = problem;
  }

  #continue(): void {
    this.#timer = undefined;
    if (this.#isStale) void this.readNow();
  }
}

/**
 * What `load` answers, read again whenever one of these lists changes, at most twice a second. Another `key` is another
 * list: it is read from the beginning.
 *
 *     const { data, problem } = useLive(['tools'], () => rest.get('/api/tools'));
 */
export function useLive<Data>(
  topics: LiveTopic[],
  load: () => Promise<Data>,
  key = '',
  pause: number = PAUSE,
): Loaded<Data> {
  const data = useSignal<Data | undefined>(undefined);
  const problem = useSignal('');
  const reader = useMemo(() => new Reader(data, problem, load, pause), [key]);
  reader.load = load;
  useEffect(() => {
    data.value = undefined;
    void reader.read();
    const end = onUpdate(({ topic }) => {
      if (topic === 'ready' || topics.includes(topic)) void reader.read();
    });
    return () => {
      reader.close();
      end();
    };
  }, [reader]);
  return { data, problem, reload: () => reader.readNow() };
}
