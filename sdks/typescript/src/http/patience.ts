import { ConnectionError } from '../errors/connection-error.js';
import { TimeoutError } from '../errors/timeout-error.js';
import { LONGEST } from '../time.js';

/** How long one request is waited for: until its caller aborts it, or the gateway is silent for too long. */
export class Patience {
  readonly #ending = new AbortController();
  readonly #stop = (): void => this.#ending.abort(this.outer?.reason);
  #timer: ReturnType<typeof setTimeout> | undefined;

  constructor(
    private readonly url: string,
    private readonly timeout: number,
    private readonly outer: AbortSignal | undefined,
  ) {
    outer?.addEventListener('abort', this.#stop);
    if (outer?.aborted) this.#stop();
  }

  /** Ends the request. */
  get signal(): AbortSignal {
    return this.#ending.signal;
  }

  /** What the promise gives. The time of silence is that of this wait. */
  async wait<Value>(promise: Promise<Value>): Promise<Value> {
    const said = `${this.url} was silent for ${this.timeout} ms.`;
    const late = () => this.#ending.abort(new TimeoutError(said, this.timeout));
    this.#timer = setTimeout(late, Math.min(this.timeout, LONGEST));
    try {
      return await promise;
    } catch (error) {
      if (this.signal.aborted) throw this.signal.reason;
      throw isOfTheNetwork(error) ? this.lost(error) : error;
    } finally {
      clearTimeout(this.#timer);
    }
  }

  /** The error for an answer that did not come, or not to its end. */
  lost(cause?: unknown): ConnectionError {
    const why = cause instanceof Error && cause.cause instanceof Error ? ` (${cause.cause.message})` : '';
    const origin = globalThis.location?.origin;
    const remedy = `Does it run there${origin ? `, and do its settings (\`gateway.origins\`) name ${origin}` : ''}?`;
    return new ConnectionError(`The gateway did not answer at ${this.url}${why}. ${remedy}`, { cause });
  }

  /** Lets go of the request, whatever state it is in. */
  end(): void {
    this.outer?.removeEventListener('abort', this.#stop);
    this.#ending.abort();
  }
}

/** `fetch` throws a TypeError when no server answers or the answer is cut off; browsers have DOMExceptions, too. */
function isOfTheNetwork(error: unknown): boolean {
  return error instanceof TypeError || (error as Partial<Error> | null)?.name === 'NetworkError';
}
