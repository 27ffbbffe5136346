import { type Signal, signal, useSignal } from '@preact/signals';
import type { LiveTopic, LiveUpdate } from 'handspan/rest';
import { useEffect } from 'preact/hooks';
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

/** Opens the stream of updates. A page in the background gives it back: a browser has few connections for one server. */
export function followUpdates(): void {
  const follow = () => {
    if (document.visibilityState === 'hidden') {
      stream?.abort();
      stream = undefined;
      isLive.value = false;
    } else if (!stream) {
      stream = new AbortController();
      void read(stream.signal);
    }
  };
  document.addEventListener('visibilitychange', follow);
  follow();
}

async function read(until: AbortSignal): Promise<void> {
  try {
    for await (const update of rest.live(until)) {
      if (until.aborted) return;
      isLive.value = true;
      for (const listener of [...listeners]) listener(update);
    }
  } catch {
    isLive.value = false; // the sign-in was taken away; the next request says so
  }
}

/** What the gateway answered, and whether it is being asked. */
export interface Loaded<Data> {
  data: Signal<Data | undefined>;
  /** Why the last request failed; empty when it did not. */
  problem: Signal<string>;
  reload(): Promise<void>;
}

/**
 * What `load` answers, read again whenever one of these lists changes, at most twice a second.
 *
 *     const { data, problem } = useLive(['tools'], () => rest.get('/api/tools'));
 */
export function useLive<Data>(topics: LiveTopic[], load: () => Promise<Data>, key = ''): Loaded<Data> {
  const data = useSignal<Data | undefined>(undefined);
  const problem = useSignal('');
  // `useSignal` gives the same object at every render; so does this.
  const state = useSignal({ isLoading: false, isStale: false, isGone: false, load }).value;
  state.load = load;
  const reload = async (): Promise<void> => {
    if (state.isLoading) {
      state.isStale = true;
      return;
    }
    state.isLoading = true;
    try {
      data.value = await state.load();
      problem.value = '';
    } catch (error) {
      problem.value = messageOf(error);
    }
    state.isLoading = false;
    if (state.isStale && !state.isGone) {
      state.isStale = false;
      setTimeout(reload, 500);
    }
  };
  useEffect(() => {
    state.isGone = false;
    data.value = undefined;
    void reload();
    const end = onUpdate(({ topic }) => {
      if (topic === 'ready' || topics.includes(topic)) void reload();
    });
    return () => {
      state.isGone = true;
      end();
    };
  }, [key]);
  return { data, problem, reload };
}
