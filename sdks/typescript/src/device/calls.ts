import { codedError } from '../errors/coded-error.js';
import { LONGEST } from '../time.js';
import { runHandler } from '../tools/runner.js';
import type { Action } from './actions.js';
import type { ClientState } from './client-state.js';
import type { Answer, PermissionRequest, QuestionFrame, ToolCallRequest, ToolResultFrame } from './frames.js';
import { type LoginRequest, LoginRequired } from './login.js';
import type { DeviceOptions } from './options.js';
import { decide } from './permission.js';
import { answerTo } from './question.js';
import { encodeError, encodeLogin, encodeResult, shrinkResult, type Upload } from './results.js';
import { type CallContext, type OfferedTool, plain } from './tool.js';

/** Milliseconds that a handler has to end after its signal; then the next call begins. */
const GRACE = 2000;

/** Runs the handlers of calls, each with a signal, and gives their answers to `ClientState`. */
export class CallRunner {
  #state: ClientState;
  #add: (actions: Action[]) => void;
  #upload: Upload;
  #asks: Pick<DeviceOptions, 'onLogin' | 'onPermission' | 'onQuestion'>;
  /** Calls that run, and questions to the person. */
  #running = new Map<string, AbortController>();
  #timeouts = new Map<string, { at: number; timer: ReturnType<typeof setTimeout> }>();
  #shrinking = new Set<string>();
  #isClosed = false;

  constructor(
    state: ClientState,
    add: (actions: Action[]) => void,
    upload: Upload,
    asks: Pick<DeviceOptions, 'onLogin' | 'onPermission' | 'onQuestion'>,
  ) {
    this.#state = state;
    this.#add = add;
    this.#upload = upload;
    this.#asks = asks;
  }

  /** Run the handler of a call. `ClientState` gets its answer once, or undefined when it was stopped. */
  async start(run: Action & { do: 'run' }): Promise<void> {
    const { id } = run.request;
    const answer = await this.#answer(run, this.#begin(id));
    this.#finish(id);
    if (!this.#isClosed) this.#add(this.#state.finishCall(id, answer));
  }

  /** Stop this call: its signal is aborted. */
  stop(id: string, reason: string): void {
    this.#running.get(id)?.abort(new DOMException(`This call was cancelled: ${reason}`, 'AbortError'));
  }

  /** Call `expireCall` after this many milliseconds, in place of an earlier timeout. */
  setCallTimeout(id: string, ms: number): void {
    this.#clearCallTimeout(id);
    const timer = setTimeout(() => this.#add(this.#state.expireCall(id)), Math.min(ms, LONGEST));
    this.#timeouts.set(id, { at: Date.now() + ms, timer });
  }

  /** Ask the person for a permission, until the question expires. */
  async ask({ id, permission, tool, call_id, expires_ms, ...about }: PermissionRequest): Promise<void> {
    const signal = this.#begin(id);
    const timer = setTimeout(() => this.stop(id, 'the question is too old'), Math.min(expires_ms, LONGEST));
    const [decision, howToEnable] = await decide(this.#asks.onPermission, {
      permission,
      tool,
      callId: call_id,
      arguments: about.arguments ?? {},
      agent: about.agent ?? '',
      signal,
    });
    clearTimeout(timer);
    this.#finish(id);
    if (!signal.aborted) this.#add(this.#state.answerPermission(id, decision, howToEnable));
  }

  /** Ask the person a question of the session, until it expires. */
  async question(frame: QuestionFrame, problem: string | undefined): Promise<void> {
    const signal = this.#begin(frame.id);
    const timer = setTimeout(() => this.stop(frame.id, 'the question is too old'), Math.min(frame.expires_ms, LONGEST));
    const answer = await answerTo(this.#asks.onQuestion, frame, signal, problem);
    clearTimeout(timer);
    this.#finish(frame.id);
    if (answer && !signal.aborted) this.#add(this.#state.answerQuestion(answer));
  }

  /** Begin the login that a call waits for. */
  async beginLogin(request: LoginRequest): Promise<void> {
    try {
      await this.#asks.onLogin?.(request);
    } catch {
      // The question stays open, and the person can begin again.
    }
  }

  /** Make an answer fit into a message, once, even if several links ask for it meanwhile. */
  async shrink(answer: ToolResultFrame): Promise<void> {
    const { id } = answer;
    if (this.#shrinking.has(id)) return;
    this.#shrinking.add(id);
    const { capabilities, limits } = this.#state;
    const small = await shrinkResult(answer, capabilities, limits, this.#upload).catch((error) =>
      encodeError(id, error),
    );
    this.#shrinking.delete(id);
    if (!this.#isClosed) this.#add(this.#state.replaceAnswer(small));
  }

  /** Stop all calls. `ClientState` gets nothing of it: the state must still say that these calls were started. */
  close(): void {
    this.#isClosed = true;
    for (const id of this.#timeouts.keys()) this.#clearCallTimeout(id);
    for (const id of this.#running.keys()) this.stop(id, 'the device was closed');
  }

  async #answer(
    { request, tool, asksPerson }: Action & { do: 'run' },
    stopped: AbortSignal,
  ): Promise<Answer | undefined> {
    const { id } = request;
    const handler = async (args: object, context: CallContext) => {
      if (asksPerson) await this.#askFor(tool, request, context.signal);
      return tool.handler?.(args, context);
    };
    const outcome = await runHandler({
      tool: { ...tool, handler },
      args: request.args ?? {},
      context: (signal) => this.#context(id, tool.name, signal),
      encode: (value) => encodeResult(id, value, this.#state.capabilities, this.#state.limits, this.#upload),
      signal: stopped,
      grace: GRACE,
    });
    if (!('error' in outcome)) return outcome.result;
    const { error } = outcome;
    return error instanceof LoginRequired
      ? encodeLogin(request, error, this.#state.capabilities)
      : encodeError(id, error);
  }

  /** Asks the person for the tool's permissions; throws when one is denied. */
  async #askFor(tool: OfferedTool, { id, args = {} }: ToolCallRequest, signal: AbortSignal): Promise<void> {
    for (const permission of tool.permissions ?? []) {
      const question = { permission, tool: tool.name, callId: id, arguments: args, agent: '', signal };
      const [decision, howToEnable] = await decide(this.#asks.onPermission, question);
      if (decision !== 'allow') throw deniedError(permission, decision, howToEnable);
    }
    signal.throwIfAborted();
  }

  #context(callId: string, name: string, signal: AbortSignal): CallContext {
    const timeouts = this.#timeouts;
    return {
      callId,
      name,
      node: '',
      signal,
      get deadline() {
        return timeouts.get(callId)?.at;
      },
      progress: (value) => this.#add(this.#state.reportProgress(callId, plain(value))),
    };
  }

  #begin(id: string): AbortSignal {
    const control = new AbortController();
    this.#running.set(id, control);
    return control.signal;
  }

  #finish(id: string): void {
    this.#running.delete(id);
    this.#clearCallTimeout(id);
  }

  #clearCallTimeout(id: string): void {
    clearTimeout(this.#timeouts.get(id)?.timer);
    this.#timeouts.delete(id);
  }
}

function deniedError(permission: string, decision: string, howToEnable: string): Error {
  const text = `Permission '${permission}' was denied by the user${howToEnable && `: ${howToEnable}`}`;
  return codedError(text, decision === 'deny' ? 'permission_denied' : 'permission_denied_forever');
}
