import { HandspanError } from './handspan-error.js';

/** The gateway was not reached, or the connection was lost before its answer was complete. */
export class ConnectionError extends HandspanError {
  override name = 'ConnectionError';
}
