import { HandspanError } from './handspan-error.js';

/** The token is known but not good for this, or the origin of this page is not (403). */
export class PermissionError extends HandspanError {
  override name = 'PermissionError';
}
