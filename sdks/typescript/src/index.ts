export type { FileData } from './api/files.js';
export type { AnswerData, FixData, GraphData, GraphToolsData, SetupData, StopData } from './api/graph.js';
export type { Memory, MemoryQuery, NewMemory } from './api/memories.js';
export type { Changed, OpenCall, Page, ThreadData, ThreadState } from './api/threads.js';
export { type ClientOptions, HandspanClient } from './client.js';
export type { AskPerson, Question, QuestionAnswer } from './device/question.js';
export { AnswerError } from './errors/answer-error.js';
export { AuthenticationError } from './errors/authentication-error.js';
export { ConnectionError } from './errors/connection-error.js';
export { GraphError } from './errors/graph-error.js';
export { type ErrorDetail, HandspanError } from './errors/handspan-error.js';
export { NotFoundError } from './errors/not-found-error.js';
export { PermissionError } from './errors/permission-error.js';
export { RateLimitError } from './errors/rate-limit-error.js';
export { ServerError } from './errors/server-error.js';
export { TimeoutError } from './errors/timeout-error.js';
export { ValidationError } from './errors/validation-error.js';
export type { Chat } from './graph/chat.js';
export {
  type Granularity,
  type Meta,
  type PartialResult,
  type RunConfig,
  type RunOptions,
  type RunResult,
  type StreamChunk,
  StreamEventType,
} from './graph/types.js';
export type { Envelope } from './http/options.js';
export {
  AnnotationBlock,
  AudioBlock,
  type ContentBlock,
  DataBlock,
  DocumentBlock,
  ErrorBlock,
  ImageBlock,
  ReasoningBlock,
  RemoteToolCallBlock,
  TextBlock,
  ToolCallBlock,
  ToolResultBlock,
  VideoBlock,
} from './messages/blocks.js';
export { type Media, media } from './messages/media.js';
export { Message, type Messages, type Role } from './messages/message.js';
export type { Part } from './messages/part.js';
export type { ProgressEvent, ToolCallEvent } from './tools/call.js';
export { type ExecutorOptions, ToolExecutor } from './tools/executor.js';
export type {
  RemoteTool,
  Tool,
  ToolAnnotations,
  ToolContext,
  ToolDefinition,
  ToolHandler,
  ToolParameter,
  ToolRegistration,
} from './tools/registration.js';
export type { StandardSchema } from './tools/schema.js';
