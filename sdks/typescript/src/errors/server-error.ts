import { HandspanError } from './handspan-error.js';

/** The gateway, or something in front of it, failed (5xx). */
export class ServerError extends HandspanError {
  override name = 'ServerError';
}
