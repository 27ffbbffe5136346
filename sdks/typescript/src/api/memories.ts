import type { Connection } from '../http/connection.js';
import type { Envelope } from '../http/options.js';
import type { Changed } from './threads.js';

/** A memory of the owner. */
export interface Memory {
  id: string;
  content: unknown;
  score?: number;
  memory_type: string;
  metadata: Record<string, unknown>;
  timestamp?: number | string | null;
  [more: string]: unknown;
}

/** A memory to store. */
export interface NewMemory {
  content: unknown;
  memory_type?: string;
  category?: string;
  metadata?: Record<string, unknown>;
  [more: string]: unknown;
}

/** What is looked for. */
export interface MemoryQuery {
  query: string;
  memory_type?: string;
  category?: string;
  limit?: number;
  [more: string]: unknown;
}

type Options = Record<string, unknown>;
type From = Connection;
const PATH = '/v1/store/memories';
const at = (id: string): string => `${PATH}/${encodeURIComponent(id)}`;

export const storeMemory = (from: From, memory: NewMemory): Promise<Envelope<{ memory_id: string }>> =>
  from.json(PATH, { body: memory });

export const searchMemory = (from: From, query: MemoryQuery): Promise<Envelope<{ results: Memory[] }>> =>
  from.json('/v1/store/search', { body: query });

export const getMemory = (from: From, id: string, options: Options = {}): Promise<Envelope<{ memory: Memory }>> =>
  from.json(at(id), { body: options });

export const updateMemory = (
  from: From,
  id: string,
  content: unknown,
  options: Options = {},
): Promise<Envelope<Changed>> => from.json(at(id), { method: 'PUT', body: { content, ...options } });

export const deleteMemory = (from: From, id: string, options: Options = {}): Promise<Envelope<Changed>> =>
  from.json(at(id), { method: 'DELETE', body: options });

export const listMemories = (from: From, options: Options = {}): Promise<Envelope<{ memories: Memory[] }>> =>
  from.json(`${PATH}/list`, { body: options });

/** Which memories to delete; `{ filters: {} }` means all of them. */
export const forgetMemories = (from: From, options: Options): Promise<Envelope<Changed>> =>
  from.json(`${PATH}/forget`, { body: options });
