import { LONGEST } from '../time.js';
import { validated } from '../tools/schema.js';
import type { Action } from './actions.js';
import { answerOf, faultOf, fitting, type Upload } from './answers.js';
import type { Answer, PermissionRequest, QuestionFrame, ToolResultFrame } from './frames.js';
import type { DeviceOptions } from './options.js';
import type { Peer } from './peer.js';
import { decide } from './permission.js';
import { answerTo } from './question.js';
import { type CallContext, plain } from './tool.js';

/** Milliseconds that a handler has to end after its signal; then its place is given to the next call. */
const GRACE = 2000;

/** The calls that run here: handlers with their signal, each with one end. What becomes of them goes to the peer. */
export class Calls {
  #peer: Peer;
  #do: (actions: Action[]) => void;
  #upload: Upload;
  #asks: Pick<DeviceOptions, 'onPermission' | 'onQuestion'>;
  /** Calls, and questions to the person. */
  #running = new Map<string, AbortController>();
  #alarms = new Map<string, { at: number; timer: ReturnType<typeof setTimeout> }>();
  #shrinking = new Set<string>();
  #isOver = false;

  constructor(
    peer: Peer,
    act: (actions: Action[]) => void,
    upload: Upload,
    asks: Pick<DeviceOptions, 'onPermission' | 'onQuestion'>,
  ) {
    this.#peer = peer;
    this.#do = act;
    this.#upload = upload;
    this.#asks = asks;
  }

  /** Run the handler of a call; its answer, or its end without one, is told to the peer once. */
  async start(run: Action & { do: 'run' }): Promise<void> {
    const { id } = run.request;
    const signal = this.#begin(id);
    let timer: ReturnType<typeof setTimeout> | undefined;
    const stopped = new Promise<undefined>((resolve) => {
      signal.onabort = () => {
        timer = setTimeout(() => resolve(undefined), GRACE);
      };
    });
    const answer = await Promise.race([this.#answer(run, signal), stopped]);
    clearTimeout(timer);
    this.#finish(id);
    if (!this.#isOver) this.#do(this.#peer.finished(id, answer));
  }

  /** Nobody waits for this call any more. */
  stop(id: string, reason: string): void {
    this.#running.get(id)?.abort(new DOMException(`Nobody waits for this call any more: ${reason}`, 'AbortError'));
  }

  /** Tell the peer when this much time has passed; what was set before is forgotten. */
  watch(id: string, ms: number): void {
    this.#silence(id);
    const timer = setTimeout(() => this.#do(this.#peer.expired(id)), Math.min(ms, LONGEST));
    this.#alarms.set(id, { at: Date.now() + ms, timer });
  }

  /** Put a question of the gateway to the person, as long as somebody waits for the answer. */
  async ask({ id, permission, tool, call_id, expires_ms }: PermissionRequest): Promise<void> {
    const signal = this.#begin(id);
    const timer = setTimeout(() => this.stop(id, 'the question is too old'), Math.min(expires_ms, LONGEST));
    const [decision, howToEnable] = await decide(this.#asks.onPermission, {
      permission,
      tool,
      callId: call_id,
      signal,
    });
    clearTimeout(timer);
    this.#finish(id);
    if (!signal.aborted) this.#do(this.#peer.permitted(id, decision, howToEnable));
  }

  /** Put a question of the session to the person, until it is over. */
  async question(frame: QuestionFrame, problem: string | undefined): Promise<void> {
    const signal = this.#begin(frame.id);
    const timer = setTimeout(() => this.stop(frame.id, 'the question is too old'), Math.min(frame.expires_ms, LONGEST));
    const answer = await answerTo(this.#asks.onQuestion, frame, signal, problem);
    clearTimeout(timer);
    this.#finish(frame.id);
    if (answer && !signal.aborted) this.#do(this.#peer.answered(answer));
  }

  /** Give an answer a form that a message can hold, once, however many links ask for it meanwhile. */
  async shrink(answer: ToolResultFrame): Promise<void> {
    const { id } = answer;
    if (this.#shrinking.has(id)) return;
    this.#shrinking.add(id);
    const { agreed, limits } = this.#peer;
    const small = await fitting(answer, agreed, limits, this.#upload).catch((error) => faultOf(id, error));
    this.#shrinking.delete(id);
    if (!this.#isOver) this.#do(this.#peer.shrunk(small));
  }

  /** Stop everything. The peer does not hear of it: who comes back must still know that these calls were begun. */
  close(): void {
    this.#isOver = true;
    for (const id of this.#alarms.keys()) this.#silence(id);
    for (const id of this.#running.keys()) this.stop(id, 'the device was closed');
  }

  async #answer({ request, tool, asks }: Action & { do: 'run' }, signal: AbortSignal): Promise<Answer | undefined> {
    const { id } = request;
    try {
      for (const permission of asks ? (tool.permissions ?? []) : []) {
        const question = { permission, tool: tool.name, callId: id, signal };
        const [decision, howToEnable] = await decide(this.#asks.onPermission, question);
        if (decision !== 'allow') throw denied(permission, decision, howToEnable);
      }
      signal.throwIfAborted();
      const args = await validated(tool.parameters, request.args ?? {});
      const value = await tool.handler?.(args, this.#context(id, tool.name, signal));
      signal.throwIfAborted();
      return await answerOf(id, value, this.#peer.agreed, this.#peer.limits, this.#upload);
    } catch (error) {
      return faultOf(id, error);
    }
  }

  #context(callId: string, name: string, signal: AbortSignal): CallContext {
    const alarms = this.#alarms;
    return {
      callId,
      name,
      node: '',
      signal,
      get deadline() {
        return alarms.get(callId)?.at;
      },
      progress: (value) => this.#do(this.#peer.progressed(callId, plain(value))),
    };
  }

  #begin(id: string): AbortSignal {
    const control = new AbortController();
    this.#running.set(id, control);
    return control.signal;
  }

  #finish(id: string): void {
    this.#running.delete(id);
    this.#silence(id);
  }

  #silence(id: string): void {
    clearTimeout(this.#alarms.get(id)?.timer);
    this.#alarms.delete(id);
  }
}

function denied(permission: string, decision: string, howToEnable: string): Error {
  const text = `Permission '${permission}' was denied by the user${howToEnable && `: ${howToEnable}`}`;
  return Object.assign(new Error(text), {
    code: decision === 'deny' ? 'permission_denied' : 'permission_denied_forever',
  });
}
