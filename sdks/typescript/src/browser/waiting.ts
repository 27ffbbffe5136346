import { BrowserToolError } from './browser-tool-error.js';

/** What the promise gives, or the end of the call as an error. */
export function untilAborted<Value>(promise: Promise<Value>, signal: AbortSignal | undefined): Promise<Value> {
  if (signal === undefined) {
    return promise;
  }
  return new Promise((resolve, reject) => {
    const stop = (): void => reject(abortError(signal));
    if (signal.aborted) {
      stop();
    }
    signal.addEventListener('abort', stop, { once: true });
    promise.then(resolve, reject).finally(() => signal.removeEventListener('abort', stop));
  });
}

/** What the promise gives, or an error with this text when it takes longer. */
export function within<Value>(milliseconds: number, promise: Promise<Value>, text: string): Promise<Value> {
  return new Promise((resolve, reject) => {
    const timer = setTimeout(() => reject(new BrowserToolError('too_late', text)), milliseconds);
    promise.then(resolve, reject).finally(() => clearTimeout(timer));
  });
}

/** A promise that resolves after this time, and rejects when the call ends. */
export function pause(milliseconds: number, signal: AbortSignal | undefined): Promise<void> {
  let timer: ReturnType<typeof setTimeout>;
  const over = new Promise<void>((resolve) => {
    timer = setTimeout(resolve, milliseconds);
  });
  return untilAborted(over, signal).finally(() => clearTimeout(timer));
}

/** The error for a call that was cancelled. */
export function abortError(signal: AbortSignal): BrowserToolError {
  return new BrowserToolError('aborted', 'The call was cancelled.', { cause: signal.reason });
}

/** The name of a DOMException or Error, which is the kind of the error in browsers. */
export function nameOf(error: unknown): string {
  return error instanceof Error || error instanceof DOMException ? error.name : '';
}

/** The message of an error. */
export function textOf(error: unknown): string {
  return error instanceof Error || error instanceof DOMException ? error.message : String(error);
}
