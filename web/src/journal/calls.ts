import { type Signal, signal } from '@preact/signals';
import type { ListedCall } from 'handspan/rest';
import { onUpdate } from '../gateway/live.ts';
import { messageOf, rest } from '../gateway/rest.ts';

export interface Filter {
  tool: string;
  origin: string;
  session: string;
  status: '' | 'open' | 'success' | 'error';
}

const PAGE = 1000;
const NEWEST = 100;
const PAUSE = 500;
const AFTER_FAILURE = 3000;

/** The calls that fit a filter, the newest first: read page by page, and kept fresh. */
export class Calls {
  readonly list: Signal<ListedCall[] | undefined> = signal(undefined);
  readonly problem = signal('');
  /** Whether older calls can be read. */
  readonly hasMore = signal(false);
  #next: string | null = null;
  #isReading = false;
  #isOver = false;
  #changed = new Set<string>();
  #timer: ReturnType<typeof setTimeout> | undefined;
  readonly #end: () => void;

  constructor(readonly filter: Filter) {
    this.#end = onUpdate(({ topic, data }) => {
      if (topic === 'ready') this.#soon();
      if (topic !== 'calls') return;
      if (typeof data?.id === 'string') this.#changed.add(data.id);
      this.#soon();
    });
    void this.more();
  }

  /** Ends the updates. */
  close(): void {
    this.#isOver = true;
    this.#end();
    clearTimeout(this.#timer);
  }

  /** Reads the next page of older calls. */
  async more(): Promise<void> {
    if (this.#isReading || (this.list.value && this.#next === null)) return;
    this.#isReading = true;
    const isDone = await this.#attempt(async () => {
      const { calls, next } = await this.#page(PAGE, this.#next ?? '');
      this.list.value = merge(this.list.value ?? [], calls);
      this.#next = next;
      this.hasMore.value = next !== null;
    });
    this.#isReading = false;
    if (!isDone && !this.#isOver) this.#soon(AFTER_FAILURE);
  }

  #soon(pause = PAUSE): void {
    this.#timer ??= setTimeout(async () => {
      this.#timer = undefined;
      const isDone = await this.#attempt(() => this.#refresh());
      if (!isDone && !this.#isOver) this.#soon(AFTER_FAILURE);
    }, pause);
  }

  /** Reads the newest calls again, and those older ones that an update named. */
  async #refresh(): Promise<void> {
    if (!this.list.value && !this.#isReading) return this.more();
    const changed = [...this.#changed];
    this.#changed.clear();
    const { calls } = await this.#page(NEWEST, '');
    const seen = new Set(calls.map(({ id }) => id));
    const open = this.list.value?.filter(({ id, state }) => state !== 'done' && !seen.has(id)) ?? [];
    const older = await Promise.all(
      open
        .filter(({ id }) => changed.includes(id))
        .map(({ id }) => rest.get('/api/calls/{call_id}', { path: { call_id: id } })),
    );
    this.list.value = merge(this.list.value ?? [], [...calls, ...older]);
  }

  #page(limit: number, after: string) {
    return rest.get('/api/calls', { query: { ...this.filter, limit, after } });
  }

  /** Does it, and returns whether it was done. */
  async #attempt(work: () => Promise<void>): Promise<boolean> {
    try {
      await work();
      this.problem.value = '';
      return true;
    } catch (error) {
      this.problem.value = messageOf(error);
      return false;
    }
  }
}

function merge(known: ListedCall[], read: ListedCall[]): ListedCall[] {
  const fresh = new Map(read.map((call) => [call.id, call]));
  const merged = known.map((call) => {
    const newer = fresh.get(call.id);
    fresh.delete(call.id);
    return newer ?? call;
  });
  if (fresh.size === 0) return merged;
  return [...merged, ...fresh.values()].sort((one, other) => (one.at < other.at ? 1 : one.at > other.at ? -1 : 0));
}
