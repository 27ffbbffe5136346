// Made by scripts/sdk_types.py from core/events.py. `make docs` writes it anew.

import type { Json, JsonObject } from '../json.js';

/** A budget is nearly spent. It is told once a day or month (SPEC L5). */
export interface BudgetLow {
  type: 'budget_low';
  text: string;
}

/** The model is writing a call: first its name, then more and more of its arguments. */
export interface CallArrived {
  type: 'call_arguments';
  index: number;
  name: string;
  arguments: string;
}

/** A call has its result. */
export interface CallFinished {
  type: 'call_finished';
  id: string;
  name: string;
  status: string;
  duration: number;
  envelope: string;
}

/** A tool reports while it runs. */
export interface CallProgress {
  type: 'call_progress';
  id: string;
  name: string;
  value: Json;
}

/** A tool is about to run. */
export interface CallStarted {
  type: 'call_started';
  id: string;
  name: string;
  arguments: string;
}

/** What the model sees of the conversation has become shorter. The conversation itself is whole (SPEC L1, L2). */
export interface Compacted {
  type: 'compacted';
  before: number;
  after: number;
  short: number;
  summarized?: number | undefined;
  summary?: string | undefined;
  note?: string | undefined;
}

/** How full the context of the session's model is (SPEC L3). */
export interface ContextUse {
  used: number;
  limit: number;
}

/** The turn is over, or waits. */
export interface Ended {
  type: 'ended';
  reason: 'aborted' | 'done' | 'error' | 'errors' | 'length' | 'limit' | 'pending' | 'refusal';
  text?: string | undefined;
  fault?: TurnFault | undefined;
}

/** A model can't answer: another one does, for the rest of the turn (SPEC L6). */
export interface ModelSwitched {
  type: 'model_switched';
  model: string;
  of: string;
  reason: string;
}

/** A question to a person, for one call with exactly these arguments, or for no call. */
export interface Question {
  id: string;
  kind: 'approval' | 'input' | 'login' | 'permission' | 'trust';
  call_id: string;
  tool: string;
  arguments: JsonObject;
  subject: string;
  owner: string;
  session: string;
  fingerprint: string;
  expires_in: number;
  schema?: JsonObject | null | undefined;
  action?: QuestionAction | null | undefined;
  agent?: string | undefined;
  device?: string | undefined;
  for_admin?: boolean | undefined;
  parameters?: JsonObject | null | undefined;
}

/** What the person opens (`login`) or compares (`trust`) before the answer. */
export interface QuestionAction {
  url?: string | undefined;
  intent?: string | undefined;
  hint?: string | undefined;
  old?: JsonObject | null | undefined;
  new?: JsonObject | null | undefined;
}

/** A person is asked before a call continues. */
export interface QuestionAsked {
  type: 'question';
  question: Question;
}

/** The request to the model waits for others that run: for a place (setting `model_requests`), or for money. */
export interface RequestQueued {
  type: 'queued';
  model: string;
  running: number;
  reason?: string | undefined;
}

/** The model's API could not answer; it is asked again after so many seconds. */
export interface RetryComing {
  type: 'retry';
  reason: string;
  seconds: number;
}

/** The model is asked: for the first time in this turn, or again with results. */
export interface RoundBegan {
  type: 'round';
  number: number;
}

/** More of the answer. */
export interface TextArrived {
  type: 'text';
  text: string;
}

/** More of the model's thinking. */
export interface ThinkingArrived {
  type: 'thinking';
  text: string;
}

/** Why a turn has failed, for programs; `Ended.text` is for people. */
export interface TurnFault {
  of: 'call' | 'inside' | 'model';
  code: string;
}

/** The tokens of one reply. None means unknown, which is not 0 (SPEC M6). */
export interface Usage {
  input?: number | null | undefined;
  output?: number | null | undefined;
  cached?: number | null | undefined;
  reasoning?: number | null | undefined;
  cache_written?: number | null | undefined;
}

/** What a reply used. */
export interface UsageCounted {
  type: 'usage';
  model: string;
  usage: Usage;
  context?: ContextUse | undefined;
  cost?: number | undefined;
}

/** What happens in a turn (ws.md 3.7); `ended` is the last. A newer gateway may send others: pass them over. */
export type TurnEvent =
  | TextArrived
  | ThinkingArrived
  | RoundBegan
  | CallArrived
  | CallStarted
  | CallProgress
  | CallFinished
  | QuestionAsked
  | UsageCounted
  | RetryComing
  | RequestQueued
  | Compacted
  | ModelSwitched
  | BudgetLow
  | Ended;
