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
  /** Calls that an update named since the last reading. */
  #changed = new Set<string>();
  /** Updates were missed: any open call may have ended. */
  #isBack = false;
  #timer: ReturnType<typeof setTimeout> | undefined;
  readonly #end: () => void;

  constructor(readonly filter: Filter) {
    this.#end = onUpdate(({ topic, data }) => {
      if (topic !== 'ready' && topic !== 'calls') return;
      if (topic === 'ready') this.#isBack = true;
      else if (typeof data.id === 'string') this.#changed.add(data.id);
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

  /** Reads the newest calls again, and the older ones that may have ended. */
  async #refresh(): Promise<void> {
    if (!this.list.value && !this.#isReading) return this.more();
    const [changed, isBack] = [[...this.#changed], this.#isBack];
    const newest = await this.#sinceLast();
    const seen = new Set(newest.map(({ id }) => id));
    const open = this.list.value?.filter(({ id, state }) => state !== 'done' && !seen.has(id)) ?? [];
    const stale = open.filter(({ id }) => isBack || changed.includes(id));
    const older = await Promise.all(stale.map(readCall));
    for (const id of changed) this.#changed.delete(id);
    if (isBack) this.#isBack = false;
    const known = this.list.value?.filter((call) => older[stale.indexOf(call)] !== null) ?? [];
    const merged = merge(known, [...newest, ...older.filter((call) => call !== null)]);
    this.list.value = this.filter.status === 'open' ? merged.filter(({ state }) => state !== 'done') : merged;
  }

  /** The newest calls, back to one that is known: while the page was in the background, many may have come. */
  async #sinceLast(): Promise<ListedCall[]> {
    const known = new Set(this.list.value?.map(({ id }) => id));
    let { calls, next } = await this.#page(NEWEST, '');
    while (next !== null && known.size > 0 && !calls.some(({ id }) => known.has(id))) {
      const older = await this.#page(PAGE, next);
      calls = [...calls, ...older.calls];
      next = older.next;
    }
    return calls;
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

/** The call as it is now; null when it was removed with its session. */
async function readCall({ id }: ListedCall): Promise<ListedCall | null> {
  try {
    return await rest.get('/api/calls/{call_id}', { path: { call_id: id } });
  } catch (error) {
    if ((error as { status?: number }).status === 404) return null;
    throw error;
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
