/** One place of a request that the gateway did not like. graph.md 1.2 */
export interface ErrorDetail {
  loc: string[];
  msg: string;
  type: string;
}

/** What is known of a failure. */
export interface ErrorFacts {
  /** The HTTP status; 0 when there was no answer. */
  status?: number;
  code?: string;
  details?: ErrorDetail[];
  /** What the gateway's log calls the request. */
  requestId?: string;
  /** The thread in which it happened, where that is known. */
  threadId?: string;
  cause?: unknown;
}

/** Anything that went wrong between this client and the gateway. */
export class HandspanError extends Error {
  override name = 'HandspanError';
  readonly status: number;
  readonly code: string;
  readonly details: ErrorDetail[];
  readonly requestId: string;
  readonly threadId: string;

  constructor(message: string, facts: ErrorFacts = {}) {
    super(message, facts.cause === undefined ? undefined : { cause: facts.cause });
    this.status = facts.status ?? 0;
    this.code = facts.code ?? '';
    this.details = facts.details ?? [];
    this.requestId = facts.requestId ?? '';
    this.threadId = facts.threadId ?? '';
  }
}
