import { HandspanError } from './handspan-error.js';

/** The gateway could not take the request (422, 400, 413): `details` names each place. */
export class ValidationError extends HandspanError {
  override name = 'ValidationError';
}
