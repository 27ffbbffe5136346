/** Why the browser did not do it. */
export type BrowserReason =
  | 'denied'
  | 'denied_forever'
  | 'dismissed'
  | 'unsupported'
  | 'insecure_context'
  | 'gesture_missing'
  | 'not_focused'
  | 'not_ready'
  | 'invalid'
  | 'aborted'
  | 'too_late'
  | 'failed';

/** One of the codes of ws.md 5.5. */
export type BrowserCode =
  | 'permission_denied'
  | 'permission_denied_forever'
  | 'invalid_arguments'
  | 'timeout'
  | 'busy'
  | 'cancelled'
  | 'execution_failed';

// `unsupported` and its kin have no code of their own: the sentence says it. ws.md 5.5
const CODES: Record<BrowserReason, BrowserCode> = {
  denied: 'permission_denied',
  denied_forever: 'permission_denied_forever',
  dismissed: 'permission_denied',
  unsupported: 'execution_failed',
  insecure_context: 'execution_failed',
  gesture_missing: 'execution_failed',
  not_focused: 'execution_failed',
  not_ready: 'busy',
  invalid: 'invalid_arguments',
  aborted: 'cancelled',
  too_late: 'timeout',
  failed: 'execution_failed',
};

/** A ready-made tool could not do it: `code` is for the gateway, `reason` for the page, the message for the model. */
export class BrowserToolError extends Error {
  override readonly name = 'BrowserToolError';
  readonly code: BrowserCode;
  readonly reason: BrowserReason;

  constructor(reason: BrowserReason, message: string, options?: ErrorOptions) {
    super(message, options);
    this.reason = reason;
    this.code = CODES[reason];
  }
}
