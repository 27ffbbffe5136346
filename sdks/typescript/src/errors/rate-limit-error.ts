import { type ErrorFacts, HandspanError } from './handspan-error.js';

/** Too many requests (429). */
export class RateLimitError extends HandspanError {
  override name = 'RateLimitError';
  /** Seconds to wait before the next request; undefined when the gateway did not tell. */
  readonly retryAfter: number | undefined;

  constructor(message: string, retryAfter: number | undefined, facts: ErrorFacts = {}) {
    super(message, facts);
    this.retryAfter = retryAfter;
  }
}
