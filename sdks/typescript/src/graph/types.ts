import type { AskPerson } from '../device/question.js';
import type { Message } from '../messages/message.js';
import type { RemoteTool } from '../tools/registration.js';

/** The fields of a run beside its messages. graph.md 4.4 */
export interface Meta {
  is_new_thread: boolean;
  thread_id: string;
  thread_name?: string | null;
  run_id?: string;
  status?: 'completed' | 'interrupted' | 'limit' | 'stopped';
  open_calls?: string[];
  [more: string]: unknown;
}

/** Which thread and which agent; more keys are passed on. */
export interface RunConfig {
  thread_id?: string | undefined;
  agent?: string | undefined;
  /** Answers the last message of the person in the thread again; the messages of the request are ignored. */
  retry?: boolean | undefined;
  [more: string]: unknown;
}

export type Granularity = 'full' | 'partial' | 'low';

/** What one request of a run brought. */
export interface PartialResult {
  /** Which request of the run it was, from 1 on. */
  iteration: number;
  messages: Message[];
  state: unknown;
  context: Message[] | null;
  summary: string | null;
  meta: Meta;
  has_tool_calls: boolean;
  is_final: boolean;
}

/** How a run goes. */
export interface RunOptions {
  config?: RunConfig | undefined;
  initial_state?: Record<string, unknown> | undefined;
  /** Rounds of calls, 1 to 100; 25 when it is missing. */
  recursion_limit?: number | undefined;
  response_granularity?: Granularity | undefined;
  /** Ends the request, the handlers and the run itself. */
  signal?: AbortSignal | undefined;
  /** Called before every request; the run waits for it. */
  onPartialResult?: ((result: PartialResult) => unknown) | undefined;
  /** Asks this page's person what the run has to know; without it their other clients are asked. graph.md 7.10 */
  onQuestion?: AskPerson | undefined;
}

/** A whole run. */
export interface RunResult {
  /** Those of the last request. */
  messages: Message[];
  /** Those of all requests, with the results of this client's tools. */
  all_messages: Message[];
  /** How many requests it took. */
  iterations: number;
  recursion_limit_reached: boolean;
  meta: Meta;
  state: unknown;
  context: Message[] | null;
  summary: string | null;
}

/** One request of a run. graph.md 4.1 */
export interface RunRequest {
  /** Whether `messages` are results that a suspended run waits for. */
  resumes: boolean;
  messages: Message[];
  config: RunConfig;
  initial_state?: Record<string, unknown>;
  recursion_limit: number;
  response_granularity?: Granularity;
  tools: RemoteTool[];
  questions?: true;
}

/** The answer to one request. */
export interface Answer {
  messages: Message[];
  meta: Meta;
  state?: unknown;
  context?: Message[] | null;
  summary?: string | null;
}

/** What a chunk of a stream is about. */
export const StreamEventType = {
  MESSAGE: 'message',
  UPDATES: 'updates',
  STATE: 'state',
  ERROR: 'error',
} as const;
export type StreamEventType = (typeof StreamEventType)[keyof typeof StreamEventType];

/** One piece of a stream. graph.md 7.2 */
export interface StreamChunk {
  event: StreamEventType;
  message: Message | null;
  state: unknown;
  data: Record<string, unknown> | null;
  thread_id: string;
  run_id: string;
  metadata: Record<string, unknown>;
  timestamp: number;
}

/** One way to send a request and get its answer; yields the chunks that arrive meanwhile. */
export type Exchange = (request: RunRequest, signal: AbortSignal) => AsyncGenerator<StreamChunk, Answer>;
