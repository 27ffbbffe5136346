import { HandspanError } from './handspan-error.js';

/** The answer is none of this protocol: is `baseUrl` the address of a Handspan gateway? */
export class AnswerError extends HandspanError {
  override name = 'AnswerError';
}
