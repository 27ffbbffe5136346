/**
 * The names of AgentFlow's client: a program that was written for it changes its import line, and nothing else.
 *
 *     import { AgentFlowClient, Message, StreamEventType } from 'handspan/agentflow';
 */
export { type ClientOptions as AgentFlowClientOptions, HandspanClient as AgentFlowClient } from '../client.js';
export { type RunConfig, type RunOptions, type RunResult, type StreamChunk, StreamEventType } from '../graph/types.js';
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
} from '../messages/blocks.js';
export { Message } from '../messages/message.js';
export { ToolExecutor } from '../tools/executor.js';
export type {
  RemoteTool,
  Tool,
  ToolDefinition,
  ToolHandler,
  ToolParameter,
  ToolRegistration,
} from '../tools/registration.js';
