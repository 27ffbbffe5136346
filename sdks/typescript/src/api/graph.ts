import type { AnswerFrame } from '../device/frames.js';
import type { Connection } from '../http/connection.js';
import type { Envelope } from '../http/options.js';
import type { RemoteTool } from '../tools/registration.js';

/** The answer to `setup`. graph.md 3.2 */
export interface SetupData {
  success: boolean;
  message: string;
  registered_tools?: number;
}

/** The agent as a graph. graph.md 9.1 */
export interface GraphData {
  info: Record<string, unknown>;
  nodes: { id: string; name: string }[];
  edges: { id: string; source: string; target: string }[];
}

/** The tools that the agent may use. graph.md 9.3 */
export interface GraphToolsData {
  node_count: number;
  tool_count: number;
  nodes: {
    node_name: string;
    tool_count: number;
    tools: { name: string; description: string; source: string; parameters: Record<string, unknown> }[];
  }[];
}

/** The answer to `stop`. graph.md 6.1 */
export interface StopData {
  success: boolean;
  message: string;
  thread_id: string;
  ok: boolean;
  running: boolean;
  reason: string;
}

/** The answer to `fix`. graph.md 6.2 */
export interface FixData {
  success: boolean;
  message: string;
  removed_count: number;
  state: unknown;
}

/** The answer to an answer. graph.md 7.10 */
export interface AnswerData {
  success: boolean;
  message: string;
  question_id: string;
  /** Whether this answer is the one that counts. */
  accepted: boolean;
}

type Config = Record<string, unknown> | undefined;
type From = Connection;

export const ping = (from: From): Promise<Envelope<'pong'>> => from.json('/ping');

export const setup = (from: From, tools: RemoteTool[]): Promise<Envelope<SetupData>> =>
  from.json('/v1/graph/setup', { body: { tools } });

export const graph = (from: From, agent?: string): Promise<Envelope<GraphData>> =>
  from.json('/v1/graph', { query: { agent } });

export const graphStateSchema = (from: From): Promise<Envelope<Record<string, unknown>>> =>
  from.json('/v1/graph:StateSchema');

export const graphTools = (from: From, agent?: string): Promise<Envelope<GraphToolsData>> =>
  from.json('/v1/graph/tools', { query: { agent } });

export const stopGraph = (from: From, thread_id: string, config?: Config): Promise<Envelope<StopData>> =>
  from.json('/v1/graph/stop', { body: { thread_id, config } });

export const answerQuestion = (from: From, { type: _, id, ...said }: AnswerFrame): Promise<Envelope<AnswerData>> =>
  from.json('/v1/graph/answer', { body: { question_id: id, ...said } });

export const fixGraph = (from: From, thread_id: string, config?: Config): Promise<Envelope<FixData>> =>
  from.json('/v1/graph/fix', { body: { thread_id, config } });
