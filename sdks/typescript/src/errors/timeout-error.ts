import { type ErrorFacts, HandspanError } from './handspan-error.js';

/** The gateway was silent for longer than `timeout`; the run may go on there. */
export class TimeoutError extends HandspanError {
  override name = 'TimeoutError';
  /** Milliseconds. */
  readonly timeout: number;

  constructor(message: string, timeout: number, facts: ErrorFacts = {}) {
    super(message, facts);
    this.timeout = timeout;
  }
}
