import { ConnectionError } from '../errors/connection-error.js';
import { HandspanError } from '../errors/handspan-error.js';
import type { Connection } from '../http/connection.js';
import { readMessages } from '../messages/message.js';
import { readMeta } from './answers.js';
import { readChunks } from './chunks.js';
import { newId } from './ids.js';
import type { Answer, Exchange, RunRequest } from './types.js';

const RETRIES = 5;
const FIRST_PAUSE = 250;

/** One request, one answer. graph.md 4 */
export function invokeExchange(connection: Connection): Exchange {
  return async function* (request, signal) {
    const { data } = await persistent(request, signal, (headers) =>
      connection.json<Partial<Answer> | null>('/v1/graph/invoke', { body: body(request), headers, signal }),
    );
    return {
      ...data,
      messages: readMessages(data?.messages),
      meta: readMeta(data?.meta, request.config.thread_id),
      context: data?.context ? readMessages(data.context) : null,
    };
  };
}

/** One request, many chunks. graph.md 7 */
export function streamExchange(connection: Connection): Exchange {
  return async function* (request, signal) {
    const lines = await persistent(request, signal, (headers) =>
      connection.lines('/v1/graph/stream', { body: body(request), headers, signal }),
    );
    return yield* readChunks(lines, request);
  };
}

/** The body of a request. */
function body({ resumes: _, messages, ...rest }: RunRequest): object {
  return { messages: messages.map(({ role, content }) => ({ role, content })), ...rest };
}

/**
 * Sends a request. Results are sent again while no server answers: all that the run has done depends on them. The key
 * keeps the gateway from taking them twice. graph.md 5.6
 */
async function persistent<Sent>(
  request: RunRequest,
  signal: AbortSignal,
  send: (headers: Record<string, string>) => Promise<Sent>,
): Promise<Sent> {
  if (!request.resumes) return send({});
  const headers = { 'Idempotency-Key': newId() };
  for (let retry = 0; ; retry += 1) {
    try {
      return await send(headers);
    } catch (error) {
      if (retry === RETRIES || !isPassing(error)) throw error;
    }
    await pause(FIRST_PAUSE * 2 ** retry * (0.5 + Math.random() / 2), signal);
  }
}

/** Whether no gateway was reached, also by the word of a proxy or of a gateway that stops. */
function isPassing(error: unknown): boolean {
  if (error instanceof ConnectionError) return true;
  return error instanceof HandspanError && (error.status === 502 || error.status === 503);
}

function pause(milliseconds: number, signal: AbortSignal): Promise<void> {
  return new Promise((resolve, reject) => {
    const timer = setTimeout(resolve, milliseconds);
    const stop = (): void => {
      clearTimeout(timer);
      reject(signal.reason);
    };
    signal.addEventListener('abort', stop, { once: true }); // of this run alone: it goes with it
    if (signal.aborted) stop();
  });
}
