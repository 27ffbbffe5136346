import type { ChannelMessage } from './channel-message.js';
import type {
  ClientFrame,
  PermissionRequest,
  QuestionFrame,
  ToolCallRequest,
  ToolResultFrame,
  TurnEvent,
} from './frames.js';
import type { LoginRequest } from './login.js';
import type { OfferedTool } from './tool.js';

/** The actions that `ClientState` returns. The connection carries them out in order, one at a time. */
export type Action =
  /** Send this frame over the link that is open now. */
  | { do: 'send'; frame: ClientFrame }
  /** Write the call memory to the state store. */
  | { do: 'save' }
  /** Make this answer fit into one message, then call `replaceAnswer`. */
  | { do: 'shrink'; answer: ToolResultFrame }
  /**
   * Run the code of this call. `isRecorded`: first write its start, so that it does not run twice (ws.md 6.4).
   * `asksPerson`: first ask the person for the tool's permissions, because the gateway did not (ws.md 5.9).
   */
  | { do: 'run'; request: ToolCallRequest; tool: OfferedTool; isRecorded: boolean; asksPerson: boolean }
  /** Call `expireCall` after this many milliseconds, counted from now. */
  | { do: 'timeout'; id: string; ms: number }
  /** Stop the code of this call, or withdraw this question: the answer is not needed any more. */
  | { do: 'stop'; id: string; reason: string }
  /** Ask the person for a permission. */
  | { do: 'ask'; request: PermissionRequest }
  /** Ask the person a question of the session; `problem` says why their last answer was refused. */
  | { do: 'question'; question: QuestionFrame; problem?: string }
  /** Begin the login that a call waits for. */
  | { do: 'login'; request: LoginRequest }
  /** Deliver an event of the turn that answers the message with this id. */
  | { do: 'event'; id: string; event: TurnEvent }
  /** Show the person a message of an agent. */
  | { do: 'message'; message: ChannelMessage }
  /** Close the link for good. */
  | { do: 'close' };
