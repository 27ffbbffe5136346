import { HandspanError } from './handspan-error.js';

/** What was asked for is not there, or is somebody else's (404). */
export class NotFoundError extends HandspanError {
  override name = 'NotFoundError';
}
