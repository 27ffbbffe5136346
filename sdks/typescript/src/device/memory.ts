import type { Answer } from './frames.js';

const MAX_CALLS = 1000;
const MAX_AGE = 3600;

interface SeenCall {
  id: string;
  /** When it last changed, in seconds since 1970. */
  at: number;
  /** `answered`: not acknowledged yet. `over`: acknowledged, or the answer is not needed. */
  stage: 'started' | 'answered' | 'over';
  /** The `retry` of the last request that was run (ws.md 5.13). */
  retry?: number | undefined;
  answer?: Answer | undefined;
}

/** The resume token and the calls that must not run twice (ws.md 6): 1,000 calls of the last hour at most. */
export class CallMemory {
  /** The token with which the device resumes its connection. */
  resumeToken = '';
  #seen = new Map<string, SeenCall>();
  #now: () => number;

  /** `text` is what an earlier page saved; any other text counts as nothing. `now` returns seconds since 1970. */
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

  /** The text to save, in the form of the Python SDK's state file. */
  encode(): string {
    const seen = [...this.#seen.values()].map((one) => ({
      ...one,
      answer: one.answer ? JSON.stringify(one.answer) : '',
    }));
    return JSON.stringify({ v: 1, resume_token: this.resumeToken, seen });
  }

  /** The stage of this call; undefined when the device has not seen it, or has forgotten it. */
  stage(id: string): SeenCall['stage'] | undefined {
    return this.#seen.get(id)?.stage;
  }

  /** How often the person had logged in when this call was last run. */
  retry(id: string): number {
    return this.#seen.get(id)?.retry ?? 0;
  }

  /** The answer of this call that is not acknowledged yet. */
  findAnswer(id: string): Answer | undefined {
    return this.#seen.get(id)?.answer;
  }

  /** Remember that the code of this call is about to run. */
  start(id: string, retry = 0): void {
    this.#put({ id, at: this.#now(), stage: 'started', retry });
  }

  /** Remember this answer until it is acknowledged. */
  answer(answer: Answer): void {
    this.#put({ id: answer.id, at: this.#now(), stage: 'answered', retry: this.retry(answer.id), answer });
  }

  /** Forget the answer of this call. The id stays, so that the call does not run again. */
  close(id: string): void {
    this.#put({ id, at: this.#now(), stage: 'over', retry: this.retry(id) });
  }

  /** The answers to send again, the oldest first. */
  unacknowledged(): Answer[] {
    return [...this.#seen.values()].flatMap(({ answer }) => answer ?? []);
  }

  #put(seen: SeenCall): void {
    this.#seen.delete(seen.id); // in the order of the last change
    this.#seen.set(seen.id, seen);
    const oldest = this.#now() - MAX_AGE;
    for (const { id, at } of this.#seen.values()) {
      if (this.#seen.size <= MAX_CALLS && at >= oldest) break;
      this.#seen.delete(id);
    }
  }
}
