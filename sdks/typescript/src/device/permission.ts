import type { Decision, JsonObject } from './frames.js';

/** A question to the person at this device (ws.md 5.9). */
export interface PermissionQuestion {
  permission: string;
  /** The tool that needs it, by the device's own name. */
  tool: string;
  callId: string;
  /** What the tool will be called with. */
  arguments: JsonObject;
  /** The agent that calls it; empty if an older gateway asks. */
  agent: string;
  /** Aborted when the question has expired, or its call has ended. */
  signal: AbortSignal;
}

/** The person's answer; `howToEnable` says how to allow it later. */
export type PermissionAnswer = Decision | { decision: Decision; howToEnable?: string };

/** Asks the person. */
export type AskPermission = (question: PermissionQuestion) => PermissionAnswer | Promise<PermissionAnswer>;

const DECISIONS: unknown[] = ['allow', 'deny', 'deny_forever'] satisfies Decision[];

/** The person's decision, and how to allow it later; a no when there is no `ask`. */
export async function decide(
  ask: AskPermission | undefined,
  question: PermissionQuestion,
): Promise<[decision: Decision, howToEnable: string]> {
  if (!ask) return ['deny', 'Give the device an `onPermission`: it has no way to ask its person.'];
  try {
    const said = await ask(question);
    const { decision, howToEnable = '' } = typeof said === 'string' ? { decision: said } : said;
    if (DECISIONS.includes(decision)) return [decision, howToEnable];
    return ['deny', `'${decision}' is no answer: onPermission has to give one of ${DECISIONS.join(', ')}.`];
  } catch (error) {
    return ['deny', `Asking failed: ${error}`];
  }
}
