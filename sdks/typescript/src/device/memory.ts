import type { Answer } from './frames.js';

const MOST_IDS = 1000;
const LONGEST_SECONDS = 3600;

interface Seen {
  id: string;
  /** When it last changed, in seconds since 1970. */
  at: number;
  /** `answered`: not acknowledged yet. `over`: acknowledged, or nobody waits for an answer. */
  stage: 'started' | 'answered' | 'over';
  answer?: Answer | undefined;
}

/** What a device must not forget (ws.md 6): its resume token, and at most 1,000 calls of the last hour. */
export class Memory {
  /** With which the device may come back. */
  resumeToken = '';
  #seen = new Map<string, Seen>();
  #now: () => number;

  /** `text` is what an earlier life wrote; anything else is as good as nothing. `now` gives seconds since 1970. */
  constructor(text: string | null | undefined, now: () => number = () => Date.now() / 1000) {
    this.#now = now;
    try {
      const kept = JSON.parse(text || '{}');
      for (const { answer, ...seen } of kept.seen ?? []) {
        this.#put({ ...seen, answer: answer ? JSON.parse(answer) : undefined });
      }
      this.resumeToken = kept.resume_token ?? '';
    } catch {
      this.#seen.clear();
    }
  }

  /** Everything, for the next life, in the form that the Python SDK's file has too. */
  encode(): string {
    const seen = [...this.#seen.values()].map((one) => ({
      ...one,
      answer: one.answer ? JSON.stringify(one.answer) : '',
    }));
    return JSON.stringify({ v: 1, resume_token: this.resumeToken, seen });
  }

  /** How far this call got; undefined when it was never seen, or long ago. */
  stage(id: string): Seen['stage'] | undefined {
    return this.#seen.get(id)?.stage;
  }

  /** Its code is about to run. */
  start(id: string): void {
    this.#put({ id, at: this.#now(), stage: 'started' });
  }

  /** It has its answer. */
  answer(answer: Answer): void {
    this.#put({ id: answer.id, at: this.#now(), stage: 'answered', answer });
  }

  /** Its answer is acknowledged, or not needed. The id stays, so that it does not run again. */
  close(id: string): void {
    this.#put({ id, at: this.#now(), stage: 'over' });
  }

  /** The answers that have to be sent again, in the order in which they were given. */
  unacknowledged(): Answer[] {
    return [...this.#seen.values()].flatMap(({ answer }) => answer ?? []);
  }

  #put(seen: Seen): void {
    this.#seen.delete(seen.id); // the order is that of the last change
    this.#seen.set(seen.id, seen);
    const oldest = this.#now() - LONGEST_SECONDS;
    for (const { id, at } of this.#seen.values()) {
      if (this.#seen.size <= MOST_IDS && at >= oldest) break;
      this.#seen.delete(id);
    }
  }
}
