import type { AnswerFrame } from '../device/frames.js';
import { GraphError } from '../errors/graph-error.js';
import { HandspanError } from '../errors/handspan-error.js';
import type { Connection } from '../http/connection.js';
import type { RemoteToolCallBlock } from '../messages/blocks.js';
import { Message } from '../messages/message.js';
import { openCalls, type ToolExecutor } from '../tools/executor.js';
import { newId } from './ids.js';
import { RunQuestions } from './questions.js';
import type { Answer, Exchange, PartialResult, RunOptions, RunRequest, RunResult, StreamChunk } from './types.js';

/** What a run needs of its client. */
export interface RunParts {
  readonly connection: Connection;
  readonly executor: ToolExecutor;
  /** Answers a question of a run. */
  readonly answer: (answer: AnswerFrame) => Promise<unknown>;
  /** Asks the gateway to stop what runs in a thread. */
  readonly stop: (threadId: string) => Promise<unknown>;
}

/**
 * The tool loop: sends the messages, runs the calls that come back, sends their results, until none are left. All ways
 * to talk to the gateway share it; they differ in the exchange of one request and its answer.
 *
 * `signal`, a callback that throws and a reader that goes away end it early, and stop the run in the gateway too.
 */
export async function* run(
  parts: RunParts,
  exchange: Exchange,
  begin: { messages: Message[] } | { calls: Message[] },
  options: RunOptions,
): AsyncGenerator<StreamChunk, RunResult> {
  const progress = new Progress(options, parts);
  const { signal } = options;
  signal?.throwIfAborted();
  const ending = new AbortController();
  const stop = (): void => ending.abort(signal?.reason);
  signal?.addEventListener('abort', stop);
  let isOver = false;
  try {
    const isFound = 'calls' in begin;
    let messages = isFound ? await progress.answer(begin.calls, ending.signal) : begin.messages;
    for (;;) {
      const answer = yield* progress.sent(exchange, messages, isFound, ending.signal);
      const partial = progress.note(answer);
      isOver = !partial.has_tool_calls;
      await options.onPartialResult?.(partial);
      if (partial.is_final) return progress.result(partial);
      messages = await progress.answer(answer.messages, ending.signal);
    }
  } catch (error) {
    isOver ||= error instanceof HandspanError && !signal?.aborted; // the gateway knows, or does not answer
    throw error;
  } finally {
    signal?.removeEventListener('abort', stop);
    ending.abort();
    if (!isOver) void parts.stop(progress.thread).catch(() => {}); // the caller has left, and gets no error
  }
}

/** What a run has come to. */
class Progress {
  thread: string;
  readonly #all: Message[] = [];
  readonly #limit: number;
  /** Calls that were run: whatever comes, none is run twice. */
  readonly #run = new Set<string>();
  #iterations = 0;

  readonly #questions: RunQuestions | undefined;
  readonly #executor: ToolExecutor;

  constructor(
    private readonly options: RunOptions,
    { executor, answer }: RunParts,
  ) {
    this.#executor = executor;
    if (options.onQuestion) this.#questions = new RunQuestions(options.onQuestion, answer);
    this.#limit = checkedLimit(options.recursion_limit);
    // A new thread gets its id here, so that even its first request can be stopped. graph.md 4.2
    this.thread = options.config?.thread_id ?? newId();
  }

  #request(messages: Message[], isFound: boolean): RunRequest {
    const { config, initial_state, response_granularity } = this.options;
    const resumes = isFound || this.#iterations > 0;
    return {
      resumes,
      messages,
      config: { ...config, thread_id: this.thread },
      recursion_limit: this.#limit,
      tools: this.#executor.remoteTools(),
      ...(this.#questions && { questions: true }),
      ...(initial_state && !resumes && { initial_state }),
      ...(response_granularity && { response_granularity }),
    };
  }

  /** Sends these messages. Results that came too late are left out then: the gateway counts them as answered. */
  async *sent(
    exchange: Exchange,
    messages: Message[],
    isFound: boolean,
    signal: AbortSignal,
  ): AsyncGenerator<StreamChunk, Answer> {
    try {
      return yield* this.#watched(exchange(this.#request(messages, isFound), signal));
    } catch (error) {
      const left = error instanceof GraphError ? inTime(messages, error) : [];
      if (left.length === 0) throw error;
      return yield* this.#watched(exchange(this.#request(left, isFound), signal));
    }
  }

  /** The same exchange; the response brings the id of the thread. */
  async *#watched(exchange: AsyncGenerator<StreamChunk, Answer>): AsyncGenerator<StreamChunk, Answer> {
    try {
      for (;;) {
        const next = await exchange.next();
        if (next.done) return next.value;
        this.thread = next.value.thread_id || this.thread;
        this.#questions?.receive(next.value);
        yield next.value;
      }
    } finally {
      this.#questions?.close();
      await exchange.return(undefined as never);
    }
  }

  note(answer: Answer): PartialResult {
    this.#iterations += 1;
    this.thread = answer.meta.thread_id || this.thread;
    const known = new Set(this.#all.map((message) => message.message_id));
    this.#all.push(...answer.messages.filter((message) => !message.message_id || !known.has(message.message_id)));
    const calls = this.#calls(answer.messages);
    return {
      iteration: this.#iterations,
      messages: answer.messages,
      state: answer.state ?? null,
      context: answer.context ?? null,
      summary: answer.summary ?? null,
      meta: answer.meta,
      has_tool_calls: calls.length > 0,
      // The gateway counts rounds (graph.md 4.6); this bound is for one that does not.
      is_final: calls.length === 0 || this.#iterations > this.#limit,
    };
  }

  /** Runs the calls in these messages; the messages that answer them. */
  async answer(messages: Message[], signal: AbortSignal): Promise<Message[]> {
    const calls = this.#calls(messages);
    for (const call of calls) this.#run.add(call.id);
    const answers = await this.#executor.executeToolCalls([Message.toolMessage(calls)], signal);
    this.#all.push(...answers);
    return answers;
  }

  #calls(messages: Message[]): RemoteToolCallBlock[] {
    return openCalls(messages).filter((call) => !this.#run.has(call.id));
  }

  result(last: PartialResult): RunResult {
    const { messages, meta, state, context, summary } = last;
    const recursion_limit_reached = meta.status === 'limit' || last.has_tool_calls;
    const all_messages = this.#all;
    return {
      messages,
      all_messages,
      iterations: this.#iterations,
      recursion_limit_reached,
      meta,
      state,
      context,
      summary,
    };
  }
}

/** The results that a refusal does not name; none when it is about something else. graph.md 5.3, 5.5 */
function inTime(results: Message[], refusal: GraphError): Message[] {
  if (refusal.code !== 'GRAPH_EXPIRED_CALL') return [];
  // ["body", "messages", place, …]: each result is a message of its own
  const late = new Set(refusal.details.map((detail) => detail.loc[2]));
  return results.filter((_, place) => !late.has(String(place)));
}

function checkedLimit(limit = 25): number {
  if (Number.isInteger(limit) && limit >= 1 && limit <= 100) return limit;
  throw new RangeError(`recursion_limit is a whole number from 1 to 100, not ${limit}.`);
}
