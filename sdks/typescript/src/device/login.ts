/** Thrown by a handler: the person has to log in first. The gateway asks them, and then sends the call again. */
export class LoginRequired extends Error {
  override readonly name = 'LoginRequired';
  readonly code = 'auth_required';
  /** What the person has to do. */
  readonly hint: string;
  /** What `onLogin` gets when the person wants to begin. */
  readonly intent: string;

  constructor(message: string, { hint = '', intent = '' }: { hint?: string; intent?: string } = {}) {
    super(message);
    this.hint = hint;
    this.intent = intent;
  }
}

/** The person wants to begin the login that a call waits for (ws.md 5.13). */
export interface LoginRequest {
  callId: string;
  /** What the handler gave to `LoginRequired`; empty if another page ran the call. */
  intent: string;
  hint: string;
}

/** Begins a login: opens a page or an app. It need not wait for its end, which the person tells the gateway. */
export type BeginLogin = (request: LoginRequest) => void | Promise<void>;
