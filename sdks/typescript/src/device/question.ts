import type { AnswerFrame, Decision, Json, JsonObject, QuestionAction, QuestionFrame, QuestionKind } from './frames.js';

/** A question to the person of a chat (ws.md 3.8). */
export interface Question {
  id: string;
  kind: QuestionKind;
  /** Empty where no call waits for the answer. */
  callId: string;
  tool: string;
  /** The agent whose call asks; empty if none does. */
  agent: string;
  arguments: JsonObject;
  /** The permission, the reason why approval is needed, or the question itself. */
  subject: string;
  /** For `input`: the JSON Schema of the answer's `value`. */
  schema?: JsonObject | undefined;
  /** For `login` what to start, for `trust` what to compare. */
  action?: QuestionAction | undefined;
  /** Why the answer before this one was refused. */
  problem?: string | undefined;
  /** Aborted when the question is over: answered elsewhere, expired, or its call has ended. */
  signal: AbortSignal;
}

/** The person's answer; with a `value` for `allow`, where the question has a schema. */
export type QuestionAnswer =
  | Decision
  | {
      decision: Decision;
      /** Remember it for this tool as it is now. */
      always?: boolean | undefined;
      /** For `approval`: what the call runs with instead. */
      arguments?: JsonObject | undefined;
      value?: Json | undefined;
      /** For a no: why, in words that the model reads. */
      reason?: string | undefined;
    };

/** Asks the person. Undefined: this program has no answer, and the question stays open for other clients. */
export type AskPerson = (question: Question) => QuestionAnswer | undefined | Promise<QuestionAnswer | undefined>;

/** The frame that answers a question; undefined when the person has no answer, or asking failed. */
export async function answerTo(
  ask: AskPerson | undefined,
  frame: QuestionFrame,
  signal: AbortSignal,
  problem?: string,
): Promise<AnswerFrame | undefined> {
  const { id, kind, call_id: callId, tool, agent = '', subject, schema, action } = frame;
  try {
    const about = { id, kind, callId, tool, agent, arguments: frame.arguments, subject, schema, action };
    const question = { ...about, problem, signal };
    const said = await ask?.(question);
    if (said === undefined) return undefined;
    return { type: 'answer', id, ...(typeof said === 'string' ? { decision: said } : said) };
  } catch {
    return undefined; // it stays open: another client may answer it, or it expires
  }
}
