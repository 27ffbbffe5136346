// The frames of protocol/ws.md that a device sends and hears. Fields that nobody reads here are left out.

import type { Json, JsonObject } from '../json.js';
import type { Part } from '../messages/part.js';
import type { TurnEvent } from './events.js';

export type { Json, JsonObject, TurnEvent };

/** What a person says to a question (ws.md 3.8, 5.9). */
export type Decision = 'allow' | 'deny' | 'deny_forever';

export interface ToolResultFrame {
  type: 'tool_result';
  id: string;
  output: Json;
  /** Always sent, though true is meant when it is missing: gateways of the seed read it. */
  success: true;
  parts?: Part[] | undefined;
}

export interface ToolErrorFrame {
  type: 'tool_error';
  id: string;
  error: string;
  success: false;
  code?: string | undefined;
  /** With `auth_required` (ws.md 5.13): what the person has to do, what can be started, and which request it answers. */
  resolution_hint?: string | undefined;
  authorize_intent?: string | undefined;
  retry?: number | undefined;
}

/** The one answer to a call (ws.md 5.2). */
export type Answer = ToolResultFrame | ToolErrorFrame;

export interface Introduction {
  type: 'connect';
  v: number;
  role: 'device' | 'chat';
  device_name: string;
  capabilities: string[];
  label?: string | undefined;
  prefix?: boolean | undefined;
  resume?: string | undefined;
  last_event?: number | undefined;
}

export interface MessageFrame {
  type: 'message';
  content: string;
  id: string;
  join?: boolean | undefined;
  parts?: Part[] | undefined;
  replaces?: number | undefined;
}

/** How a message is sent (ws.md 3.1). */
export interface MessageOptions {
  /** While a turn runs, the message becomes part of it; else it waits for a turn of its own. */
  join?: boolean | undefined;
  /** Images, sounds and files: small ones as base64 (`data`), others uploaded (`artifact`). */
  parts?: Part[] | undefined;
  /** The number of the person's message in whose place it stands. That one and all after it are removed. */
  replaces?: number | undefined;
}

export interface PermissionAnswer {
  type: 'permission_answer';
  id: string;
  decision: Decision;
  how_to_enable?: string | undefined;
}

/** What a question is about (ws.md 3.8). */
export type QuestionKind = 'permission' | 'approval' | 'input' | 'login' | 'trust';

/** What the person starts (`login`) or compares (`trust`) before they answer. */
export interface QuestionAction {
  /** An http or https address to open. */
  url?: string;
  /** What an app is started with. */
  intent?: string;
  /** What to do there, in words. */
  hint?: string;
  /** The definition that was accepted; missing when there was none. */
  old?: JsonObject;
  /** The definition that is offered now. */
  new?: JsonObject;
}

export interface QuestionFrame {
  type: 'question';
  id: string;
  kind: QuestionKind;
  call_id: string;
  tool: string;
  arguments: JsonObject;
  subject: string;
  expires_ms: number;
  schema?: JsonObject;
  action?: QuestionAction;
  agent?: string;
}

export interface AnswerFrame {
  type: 'answer';
  id: string;
  decision: Decision;
  always?: boolean | undefined;
  arguments?: JsonObject | undefined;
  value?: Json | undefined;
  reason?: string | undefined;
}

export type ClientFrame =
  | Introduction
  | { type: 'register_tools'; tools: object[] }
  | { type: 'unregister_tools'; names: string[] }
  | Answer
  | { type: 'tool_progress'; id: string; value: Json }
  | PermissionAnswer
  | AnswerFrame
  | MessageFrame
  | { type: 'abort' }
  | { type: 'regenerate' };

/** What the gateway takes (ws.md 8.1). */
export interface Limits {
  message_bytes: number;
  depth: number;
}

export const DEFAULT_LIMITS: Limits = { message_bytes: 1024 * 1024, depth: 64 };

export interface ToolCallRequest {
  type: 'tool_call_request';
  id: string;
  name: string;
  args?: JsonObject;
  timeout_ms?: number;
  /** How often the person has logged in for this call. */
  retry?: number;
}

export interface PermissionRequest {
  type: 'permission_request';
  id: string;
  call_id: string;
  tool: string;
  permission: string;
  expires_ms: number;
  arguments?: JsonObject;
  agent?: string;
}

/** A message that an agent sends to the person, outside of any answer (ws.md 3.9). */
export interface ChannelMessageFrame {
  type: 'channel_message';
  channel: string;
  chat_id: string;
  content: string;
}

export type ServerFrame =
  | ToolCallRequest
  | { type: 'session_start'; session_id: string }
  | {
      type: 'connected';
      capabilities?: string[];
      limits?: Limits;
      label?: string;
      resume_token?: string;
      resumed?: boolean;
      /** How the last turn of the session ended, if not with a whole answer. */
      ended?: { reason: string; at: number; model?: string; text?: string; fault?: { of: string; code: string } };
      notice?: string;
    }
  | { type: 'tools_registered'; rejected?: { name: string; reason: string }[] }
  | { type: 'tools_withdrawn'; tools: { name: string; reason: string }[] }
  | { type: 'result_acknowledged'; id?: string; ids?: string[] }
  | { type: 'tool_cancel'; id: string; reason: string }
  | { type: 'login_start'; id: string; call_id: string }
  | PermissionRequest
  | { type: 'message_accepted'; id: string; turn: string }
  | QuestionFrame
  | { type: 'question_closed'; id: string; accepted: boolean }
  | { type: 'event'; seq: number; turn?: string; event: TurnEvent }
  | ChannelMessageFrame
  | { type: 'pong' }
  | { type: 'error'; message: string; code?: string; id?: string };

/** The frame in this text; nothing when it is none (ws.md 2.2: types that nobody knows are passed over later). */
export function readFrame(text: string): ServerFrame | undefined {
  try {
    const frame: unknown = JSON.parse(text);
    return typeof frame === 'object' && frame !== null && 'type' in frame ? (frame as ServerFrame) : undefined;
  } catch {
    return undefined;
  }
}

/** A `tool_error`, without a code when there is none. */
export function toolError(id: string, error: string, code?: string): ToolErrorFrame {
  return { type: 'tool_error', id, error, success: false, code: code || undefined };
}
