import { HandspanError } from './handspan-error.js';

/** The thing does not exist, or belongs to another owner (404). */
export class NotFoundError extends HandspanError {
  override name = 'NotFoundError';
}
