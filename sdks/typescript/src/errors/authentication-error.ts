import { HandspanError } from './handspan-error.js';

/** There was no token, or the gateway does not know it (401): make a new one, or sign in again. */
export class AuthenticationError extends HandspanError {
  override name = 'AuthenticationError';
}
