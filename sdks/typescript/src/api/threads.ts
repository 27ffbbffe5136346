import type { Connection } from '../http/connection.js';
import type { Envelope } from '../http/options.js';
import { Message, readMessages } from '../messages/message.js';

/** Which part of a list. */
export interface Page {
  search?: string | undefined;
  offset?: number | undefined;
  limit?: number | undefined;
}

/** A thread as it is listed. graph.md 8.1 */
export interface ThreadData {
  thread_id: string;
  thread_name: string | null;
  user_id?: string | null;
  metadata?: Record<string, unknown> | null;
  updated_at?: string | null;
  run_id?: string | null;
}

/** A call that waits for its client. graph.md 8.2 */
export interface OpenCall {
  id: string;
  name: string;
  args: Record<string, unknown>;
  expires_at?: number | string | null;
}

/** The state of a thread. graph.md 8.2 */
export interface ThreadState {
  context: Message[];
  context_summary: string | null;
  execution_meta: {
    status: string;
    interrupt_data?: { open_calls?: OpenCall[] } | null;
    [more: string]: unknown;
  };
  [more: string]: unknown;
}

/** The answer to a change. */
export interface Changed {
  success: boolean;
  message: string;
  data?: unknown;
}

type Config = Record<string, unknown>;
type From = Connection;
const at = (id: string, rest = ''): string => `/v1/threads/${encodeURIComponent(id)}${rest}`;
const entry = (id: string, message: string): string => at(id, `/messages/${encodeURIComponent(message)}`);

export const threads = (from: From, page?: Page): Promise<Envelope<{ threads: ThreadData[] }>> =>
  from.json('/v1/threads', { query: page });

export const threadDetails = (from: From, id: string): Promise<Envelope<{ thread_data: { thread: ThreadData } }>> =>
  from.json(at(id));

export const deleteThread = (from: From, id: string, config: Config = {}): Promise<Envelope<Changed>> =>
  from.json(at(id), { method: 'DELETE', body: { config } });

export const threadState = async (from: From, id: string): Promise<Envelope<{ state: ThreadState }>> =>
  withState(await from.json(at(id, '/state')));

export const updateThreadState = async (
  from: From,
  id: string,
  config: Config,
  state: Partial<ThreadState>,
): Promise<Envelope<{ state: ThreadState }>> =>
  withState(await from.json(at(id, '/state'), { method: 'PUT', body: { config, state } }));

export const clearThreadState = (from: From, id: string): Promise<Envelope<Changed>> =>
  from.json(at(id, '/state'), { method: 'DELETE' });

export const threadMessages = async (
  from: From,
  id: string,
  page?: Page,
): Promise<Envelope<{ messages: Message[] }>> => {
  const { data, ...rest } = await from.json<{ messages: unknown }>(at(id, '/messages'), { query: page });
  return { ...rest, data: { ...data, messages: readMessages(data.messages) } };
};

export const addThreadMessages = (
  from: From,
  id: string,
  messages: Message[],
  config: Config = {},
  metadata?: Config,
): Promise<Envelope<Changed>> => from.json(at(id, '/messages'), { body: { messages, config, metadata } });

export const singleMessage = async (from: From, id: string, message: string): Promise<Envelope<Message>> => {
  const { data, ...rest } = await from.json<Partial<Message>>(entry(id, message));
  return { ...rest, data: Message.read(data) };
};

export const deleteMessage = (
  from: From,
  id: string,
  message: string,
  config: Config = {},
): Promise<Envelope<Changed>> => from.json(entry(id, message), { method: 'DELETE', body: { config } });

function withState({ data, ...rest }: Envelope<{ state: ThreadState }>): Envelope<{ state: ThreadState }> {
  return { ...rest, data: { ...data, state: { ...data.state, context: readMessages(data.state.context) } } };
}
