/**
 * A page or a program as a device: its functions are tools of the gateway's agents (protocol/ws.md).
 *
 * `peer.ts`, `memory.ts` and `talk.ts` are the protocol without a socket; `link.ts` is the socket without words;
 * `connection.ts` puts them together. A frame's meaning belongs into `peer.ts`, with a case in `protocol/vectors/`.
 */
export { Device } from './device.js';
export type { Decision, QuestionAction, QuestionKind, TurnEvent } from './frames.js';
export type { Backoff, WebSocketLike } from './link.js';
export type { DeviceOptions, DeviceState } from './options.js';
export type { AskPermission, PermissionAnswer, PermissionQuestion } from './permission.js';
export type { AskPerson, Question, QuestionAnswer } from './question.js';
export { localState, type StateStore } from './store.js';
export type { CallContext, DeviceTool } from './tool.js';
