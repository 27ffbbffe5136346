import type {
  ClientFrame,
  PermissionRequest,
  QuestionFrame,
  ToolCallRequest,
  ToolResultFrame,
  TurnEvent,
} from './frames.js';
import type { OfferedTool } from './tool.js';

/** What the peer wants done. Actions are done in order, one after another. */
export type Action =
  /** Send this over the link that is up now. */
  | { do: 'send'; frame: ClientFrame }
  /** Write what has to outlive this page. */
  | { do: 'keep' }
  /** Give this answer a form that a message can hold, and say `shrunk` then. */
  | { do: 'shrink'; answer: ToolResultFrame }
  /**
   * Run this call's code. `isRecorded`: first write that it was begun, so that it does not run twice (ws.md 6.4).
   * `asks`: first ask the person for the tool's permissions, because the gateway did not (ws.md 5.9).
   */
  | { do: 'run'; request: ToolCallRequest; tool: OfferedTool; isRecorded: boolean; asks: boolean }
  /** Say `expired` when so many milliseconds have passed, counted from now. */
  | { do: 'watch'; id: string; ms: number }
  /** Nobody waits for this call, or for the answer to this question, any more: tell its code. */
  | { do: 'stop'; id: string; reason: string }
  /** Ask the person. */
  | { do: 'ask'; request: PermissionRequest }
  /** Put a question of the session to the person; `problem` is why their last answer was refused. */
  | { do: 'question'; question: QuestionFrame; problem?: string }
  /** This happened in the turn that answers the message with this id. */
  | { do: 'happened'; id: string; event: TurnEvent }
  /** Close the link for good. */
  | { do: 'close' };
