import type { JsonObject } from '../device/frames.js';
import { AuthenticationError } from '../errors/authentication-error.js';
import { PermissionError } from '../errors/permission-error.js';
import type { Connection } from '../http/connection.js';

/** The lists that change; `ready` says that a connection begins, `messages` has a message of an agent to the person. */
export type LiveTopic =
  | 'ready'
  | 'sessions'
  | 'calls'
  | 'questions'
  | 'devices'
  | 'tools'
  | 'agents'
  | 'tokens'
  | 'models'
  | 'messages'
  | 'schedules';

/** One change of one list. */
export interface LiveUpdate {
  topic: LiveTopic;
  data: JsonObject;
}

const FIRST_PAUSE = 500;
const LONGEST_PAUSE = 15_000;

/** The updates of `/api/live`, over as many connections as it takes; `onDrop` is called when one has ended. */
export async function* liveUpdates(
  connection: Connection,
  signal?: AbortSignal,
  onDrop?: () => void,
): AsyncGenerator<LiveUpdate, void> {
  for (let attempt = 0; !signal?.aborted; attempt += 1) {
    try {
      for await (const update of oneConnection(connection, signal)) {
        attempt = 0;
        yield update;
      }
    } catch (error) {
      if (signal?.aborted) return;
      if (error instanceof AuthenticationError || error instanceof PermissionError) throw error;
    }
    onDrop?.();
    await pause(Math.min(LONGEST_PAUSE, FIRST_PAUSE * 2 ** attempt) * (1 + Math.random() / 2), signal);
  }
}

async function* oneConnection(connection: Connection, signal?: AbortSignal): AsyncGenerator<LiveUpdate, void> {
  let topic = '';
  for await (const line of await connection.lines('/api/live', { signal })) {
    if (line.startsWith('event: ')) topic = line.slice(7);
    else if (line.startsWith('data: ')) yield { topic: topic as LiveTopic, data: JSON.parse(line.slice(6)) };
  }
}

function pause(ms: number, signal?: AbortSignal): Promise<void> {
  return new Promise((resolve) => {
    const end = () => {
      clearTimeout(timer);
      globalThis.removeEventListener?.('online', end);
      signal?.removeEventListener('abort', end);
      resolve();
    };
    const timer = setTimeout(end, ms);
    globalThis.addEventListener?.('online', end);
    signal?.addEventListener('abort', end);
    if (signal?.aborted) end();
  });
}
