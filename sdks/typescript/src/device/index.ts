/**
 * A page or a program as a device: its functions are tools of the gateway's agents (protocol/ws.md).
 *
 * `client-state.ts`, `chat-state.ts` and `memory.ts` are the protocol without a socket; `link.ts` is the socket, which
 * does not read messages; `connection.ts` puts them together. A frame's meaning goes into `client-state.ts`, with a
 * case in `protocol/vectors/`.
 */
export type { ChannelMessage, ShowMessage } from './channel-message.js';
export { Device } from './device.js';
export type { Decision, MessageOptions, QuestionAction, QuestionKind, TurnEvent } from './frames.js';
export type { Backoff, WebSocketLike } from './link.js';
export { type BeginLogin, type LoginRequest, LoginRequired } from './login.js';
export type { DeviceOptions, DeviceState } from './options.js';
export { type PairedGateway, type PairOptions, pair, readPairingLink } from './pairing.js';
export type { AskPermission, PermissionAnswer, PermissionQuestion } from './permission.js';
export type { AskPerson, Question, QuestionAnswer } from './question.js';
export { localState, type StateStore } from './store.js';
export type { CallContext, DeviceTool } from './tool.js';
