import { AnswerError } from '../errors/answer-error.js';
import { ConnectionError } from '../errors/connection-error.js';
import { GraphError } from '../errors/graph-error.js';
import { Message } from '../messages/message.js';
import { readMeta } from './answers.js';
import type { Answer, RunRequest, StreamChunk } from './types.js';

/**
 * Yields the chunks of one request and returns what they come to. The deltas of a message are for those who watch: what
 * counts is the whole message that follows them. graph.md 7.3
 *
 * An error chunk is yielded, and thrown at the end.
 */
export async function* readChunks(
  texts: AsyncIterable<string>,
  request: RunRequest,
): AsyncGenerator<StreamChunk, Answer> {
  const answer: Answer = { messages: [], meta: readMeta(null, request.config.thread_id) };
  let isComplete = false;
  let failed: GraphError | undefined;
  for await (const text of texts) {
    const chunk = readChunk(text);
    const isEnd = isLast(chunk);
    if (!isEnd) yield chunk;
    if (chunk.event === 'error') failed = failure(chunk);
    note(answer, chunk);
    const meta = chunk.metadata?.meta ?? (isEnd ? chunk.data?.meta : undefined);
    if (meta) answer.meta = readMeta(meta, answer.meta.thread_id);
    isComplete ||= isEnd || Boolean(meta) || hasCall(chunk);
  }
  if (failed) throw failed;
  if (isComplete) return answer;
  throw new ConnectionError(
    `The stream ended before the run did. What came of it will be in the thread: threadMessages('${answer.meta.thread_id}').`,
    { threadId: answer.meta.thread_id },
  );
}

/** Whether this is the end mark of the WebSocket, which the caller does not need. graph.md 7.7 */
export function isLast(chunk: Partial<StreamChunk> | null): boolean {
  return chunk?.event === 'updates' && chunk.data?.status === 'done';
}

function readChunk(text: string): StreamChunk {
  let chunk: StreamChunk | undefined;
  try {
    chunk = JSON.parse(text);
  } catch {
    // told below
  }
  if (typeof chunk?.event !== 'string') {
    throw new AnswerError(`A piece of the stream can't be read: '${text.slice(0, 200)}'`);
  }
  return { ...chunk, message: chunk.message ? Message.read(chunk.message) : null };
}

function note(answer: Answer, chunk: StreamChunk): void {
  answer.meta.thread_id = chunk.thread_id || answer.meta.thread_id;
  if (chunk.message && !chunk.message.delta) answer.messages.push(chunk.message);
  if (chunk.state) answer.state = chunk.state;
}

function hasCall(chunk: StreamChunk): boolean {
  return chunk.message?.content.some((block) => block.type === 'remote_tool_call') ?? false;
}

function failure(chunk: StreamChunk): GraphError {
  const { reason, code } = chunk.data ?? {};
  return new GraphError(String(reason ?? 'The run failed, and the gateway did not say why.'), {
    code: String(code ?? 'GRAPH_ERROR'),
    threadId: chunk.thread_id,
  });
}
