import { codedError } from '../errors/coded-error.js';
import { validate } from './schema.js';

/** How a handler ended; empty when it did not end by itself after its call was stopped. */
export interface Outcome<Result> {
  readonly result?: Result;
  readonly error?: unknown;
}

/** One run of a handler. */
export interface HandlerRun<Context, Result> {
  readonly tool: {
    readonly name: string;
    readonly parameters?: object | undefined;
    // biome-ignore lint/suspicious/noExplicitAny: each tool has arguments of its own
    readonly handler?: ((args: any, context: Context) => unknown) | undefined;
  };
  readonly args: unknown;
  /** What the handler gets beside its arguments. */
  readonly context: (signal: AbortSignal) => Context;
  /** Makes the answer of what the handler returned. */
  readonly encode: (value: unknown) => Promise<Result>;
  /** Aborted when the answer is not needed any more. */
  readonly signal: AbortSignal;
  /** Milliseconds that the handler has to end by itself after that; none when it is missing. */
  readonly grace?: number | undefined;
  /** Milliseconds that all of it may take; without it only `signal` ends it early. */
  readonly timeout?: number | undefined;
}

/** Runs the handler of one call, of every kind of tool; its outcome, always. */
export async function runHandler<Context, Result>(run: HandlerRun<Context, Result>): Promise<Outcome<Result>> {
  const { signal: stopped, timeout = 0, tool } = run;
  const control = new AbortController();
  const { signal } = control;
  const expire = () =>
    control.abort(codedError(`Tool '${tool.name}' took longer than ${timeout / 1000} s.`, 'timeout'));
  let timer = timeout && setTimeout(expire, timeout);
  const ended = new Promise<Outcome<Result>>((resolve) => {
    signal.onabort = () => {
      if (!stopped.aborted) resolve({ error: signal.reason });
      else timer = setTimeout(() => resolve({}), run.grace);
    };
  });
  const stop = (): void => {
    clearTimeout(timer);
    control.abort(stopped.reason);
  };
  stopped.addEventListener('abort', stop);
  if (stopped.aborted) stop();
  const outcome = await Promise.race([attempt(run, signal), ended]);
  stopped.removeEventListener('abort', stop);
  clearTimeout(timer);
  return outcome;
}

async function attempt<Context, Result>(
  { tool, args, context, encode }: HandlerRun<Context, Result>,
  signal: AbortSignal,
): Promise<Outcome<Result>> {
  try {
    const valid = await validate(tool.parameters, args);
    signal.throwIfAborted();
    const value = await tool.handler?.(valid, context(signal));
    signal.throwIfAborted();
    return { result: await encode(value) };
  } catch (error) {
    return { error };
  }
}
