const SECONDS = 60;

/** The promise's value, or an error that says what did not happen in time. */
export async function bounded<T>(promise: Promise<T>, what: string): Promise<T> {
  let timer: ReturnType<typeof setTimeout> | undefined;
  const late = new Promise<never>((_, reject) => {
    timer = setTimeout(() => reject(new Error(`this did not happen within ${SECONDS} s: ${what}`)), SECONDS * 1000);
  });
  try {
    return await Promise.race([promise, late]);
  } finally {
    clearTimeout(timer);
  }
}

/** Things that come one after another, and are waited for. */
export class Queue<T> {
  private readonly there: T[] = [];
  private readonly waiting: ((one: T) => void)[] = [];

  put(one: T): void {
    const next = this.waiting.shift();
    if (next) next(one);
    else this.there.push(one);
  }

  /** The next one, however long it takes. */
  take(): Promise<T> {
    const [one] = this.there.splice(0, 1);
    return one === undefined ? new Promise((resolve) => this.waiting.push(resolve)) : Promise.resolve(one);
  }

  next(what: string): Promise<T> {
    return bounded(this.take(), what);
  }

  clear(): void {
    this.there.length = 0;
  }

  get size(): number {
    return this.there.length;
  }
}
