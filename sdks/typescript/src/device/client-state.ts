import type { Action } from './actions.js';
import { ChatState } from './chat-state.js';
import {
  type Answer,
  type AnswerFrame,
  type ClientFrame,
  DEFAULT_LIMITS,
  type Decision,
  type Introduction,
  type Json,
  type MessageFrame,
  type MessageOptions,
  type PermissionAnswer,
  type PermissionRequest,
  type ServerFrame,
  type ToolCallRequest,
  toolError,
} from './frames.js';
import type { LoginRequest } from './login.js';
import type { CallMemory } from './memory.js';
import { Questions } from './questions.js';
import { problemsOf } from './schema.js';
import { fits, progressValue, shorten, shortenError, sizeOf, spaceIn } from './sizes.js';
import { mayRepeat, type OfferedTool, timeOf } from './tool.js';

const MAX_OFFERED = 256 * 1024;
const MAX_QUESTIONS = 1000;

interface OpenCall {
  request: ToolCallRequest;
  /** Milliseconds. */
  time: number;
  isRunning: boolean;
  /** It is answered, or its answer is not needed; its code may still run. */
  isSettled: boolean;
}

/**
 * The device's side of ws.md: frames in, actions out. No socket, no clock, no code of tools.
 * It keeps answers until they are acknowledged. After a drop or a reload it knows what to send again, and what not to
 * run again.
 */
export class ClientState {
  isConnected = false;
  /** The capabilities that both ends have. */
  capabilities = new Set<string>();
  limits = DEFAULT_LIMITS;
  label = '';
  notice = '';
  /** Tools that the gateway did not take, and why. */
  rejected: Record<string, string> = {};
  readonly chat = new ChatState();
  readonly #questions = new Questions();
  #isOpen = false;
  #calls = new Map<string, OpenCall>();
  #permissions = new Map<string, PermissionAnswer | undefined>();
  #introduction: Introduction;
  #tools: ReadonlyMap<string, OfferedTool>;
  #memory: CallMemory;
  #concurrency: number;

  constructor(
    introduction: Introduction,
    tools: ReadonlyMap<string, OfferedTool>,
    memory: CallMemory,
    concurrency: number,
  ) {
    this.#introduction = introduction;
    this.#tools = tools;
    this.#memory = memory;
    this.#concurrency = concurrency;
  }

  // The link.

  /** A link is open: introduce the device and offer its tools, without waiting (ws.md 1.5). */
  openLink(): Action[] {
    this.#isOpen = true;
    this.rejected = {};
    const resume = this.#memory.resumeToken || undefined;
    const last_event = resume ? this.chat.lastEvent : undefined;
    return [send({ ...this.#introduction, resume, last_event }), ...this.#offerFrames(this.#tools.values())];
  }

  /** The link has dropped, and with it all frames that were not sent yet. */
  dropLink(): void {
    this.#isOpen = this.isConnected = false;
    if (this.capabilities.has('resume')) return;
    for (const [id, call] of this.#calls) {
      call.isSettled = true; // ws.md 6.6: the gateway has ended its calls
      if (!call.isRunning) this.#calls.delete(id);
    }
  }

  receive(frame: ServerFrame): Action[] {
    switch (frame.type) {
      case 'tool_call_request':
        return this.#receiveRequest(frame);
      case 'result_acknowledged':
        return this.#receiveAcknowledged([frame.id ?? '', ...(frame.ids ?? [])]);
      case 'tool_cancel':
        return this.#receiveCancel(frame.id, frame.reason);
      case 'permission_request':
        return this.#receivePermission(frame);
      case 'login_start':
        return [{ do: 'login', request: this.#loginRequest(frame.call_id) }];
      case 'question_closed':
        return [...this.#stopAsking([frame.id]), ...this.#questions.receive(frame)];
      case 'channel_message':
        return [{ do: 'message', message: { channel: frame.channel, chatId: frame.chat_id, content: frame.content } }];
      case 'connected':
        return this.#receiveConnected(frame);
      case 'tools_registered':
        for (const { name, reason } of frame.rejected ?? []) this.rejected[name] = reason;
        return [];
      case 'tools_withdrawn':
        for (const { name, reason } of frame.tools) this.rejected[name] = reason;
        return [];
      default:
        return [...this.#questions.receive(frame), ...this.chat.receive(frame)];
    }
  }

  /** Send a message in the session, now or as soon as the gateway is connected. */
  sendMessage(content: string, id: string, options: MessageOptions = {}): Action[] {
    const frame = { type: 'message', content, id, ...options } as const;
    this.chat.beginTurn(frame);
    return this.isConnected ? this.#sendMessages([frame]) : [];
  }

  // The tools.

  /** A tool was added, replaced or removed. */
  changeTool(name: string): Action[] {
    const tool = this.#tools.get(name);
    if (!this.#isOpen) return [];
    if (tool) return this.#offerFrames([tool]);
    return this.capabilities.has('unregister') ? [send({ type: 'unregister_tools', names: [name] })] : [];
  }

  // The calls.

  /** The code of a call has ended, with this answer; undefined when it was stopped. */
  finishCall(id: string, answer: Answer | undefined): Action[] {
    const call = this.#calls.get(id);
    const actions: Action[] = [];
    this.#calls.delete(id);
    if (call && !call.isSettled) {
      if (answer) actions.push(...this.#storeAnswer(answer));
      else this.#memory.close(id);
    }
    return [...actions, ...this.#startCalls()];
  }

  /** The code of a call reports a value. */
  reportProgress(id: string, value: Json): Action[] {
    const call = this.#calls.get(id);
    if (!call || call.isSettled || !this.isConnected || !this.capabilities.has('progress')) return [];
    const tool = this.#tools.get(call.request.name);
    const ms = tool ? timeOf(tool) : call.time; // ws.md 5.7: progress restarts the timeout
    return [send({ type: 'tool_progress', id, value: progressValue(value, this.limits) }), { do: 'timeout', id, ms }];
  }

  /** The call has timed out. */
  expireCall(id: string): Action[] {
    const call = this.#calls.get(id);
    if (!call) return [];
    // The link dropped without `resume`: the handler may still hold the place of other calls.
    if (call.isSettled) return call.isRunning ? [{ do: 'stop', id, reason: 'timeout' }] : [];
    call.isSettled = true;
    const what = `Tool '${call.request.name}' did not`;
    const limit = `within ${call.time / 1000} s`;
    if (call.isRunning) {
      return [{ do: 'stop', id, reason: 'timeout' }, ...this.#fail(id, `${what} finish ${limit}.`, 'timeout')];
    }
    this.#calls.delete(id);
    return this.#fail(id, `${what} begin ${limit}: this device is still busy with other calls.`, 'busy');
  }

  /** The person has answered a permission question. */
  answerPermission(id: string, decision: Decision, howToEnable: string): Action[] {
    const how_to_enable = shorten(howToEnable, this.limits) || undefined;
    const answer: PermissionAnswer = { type: 'permission_answer', id, decision, how_to_enable };
    this.#permissions.set(id, answer);
    return this.isConnected ? [send(answer)] : [];
  }

  /** The person has answered a question of the session. */
  answerQuestion(answer: AnswerFrame): Action[] {
    const frame = this.#questions.answer(answer);
    if (frame && !fits(frame, this.limits)) {
      const why = `The answer has ${sizeOf(frame)} bytes, and the gateway takes ${this.limits.message_bytes}`;
      return this.#questions.refuse(frame.id, `${why} in one message: answer with less.`);
    }
    return frame && this.isConnected ? [send(frame)] : [];
  }

  /** Send this smaller form of an answer that did not fit into a message. */
  replaceAnswer(answer: Answer): Action[] {
    return this.#memory.stage(answer.id) === 'answered' ? this.#storeAnswer(answer) : [];
  }

  // Frames.

  #receiveConnected(frame: ServerFrame & { type: 'connected' }): Action[] {
    this.isConnected = true;
    this.capabilities = new Set(frame.capabilities);
    this.limits = { ...DEFAULT_LIMITS, ...frame.limits };
    this.label = frame.label ?? '';
    this.notice = frame.notice ?? '';
    this.#memory.resumeToken = frame.resume_token ?? '';
    const actions: Action[] = [{ do: 'save' }];
    // A gateway that does not know the old link asks again where it has to.
    if (!frame.resumed) actions.push(...this.#stopAsking(this.#permissions.keys()));
    for (const answer of this.#memory.unacknowledged()) actions.push(...this.#resendAnswer(answer));
    return [...actions, ...this.#questions.answers().map(send), ...this.#sendMessages(this.chat.openMessages())]; // ws.md 6.5
  }

  /** Send an answer that an earlier link or page sent without an acknowledgement (ws.md 6.3). */
  #resendAnswer(answer: Answer): Action[] {
    if (!this.capabilities.has('resume')) {
      this.#memory.close(answer.id); // the gateway that asked for it has ended its call
      return [];
    }
    if (fits(answer, this.limits)) return [send(answer)];
    // The limits of this gateway are lower than those of the earlier one: it would close every link on this answer.
    return answer.type === 'tool_error' ? this.#storeAnswer(answer) : [{ do: 'shrink', answer }];
  }

  #sendMessages(frames: MessageFrame[]): Action[] {
    if (this.capabilities.has('resume') && this.capabilities.has('events')) {
      return frames.flatMap((frame) => (fits(frame, this.limits) ? send(frame) : this.#tooLarge(frame)));
    }
    return this.chat.loseTurns("This gateway can't be talked to here: it has no 'resume' or no 'events' (ws.md 1.9).");
  }

  #tooLarge(frame: MessageFrame): Action[] {
    const why = `This has ${sizeOf(frame)} bytes and is too large to be sent: the gateway takes ${this.limits.message_bytes}`;
    return this.chat.refuseMessage(
      frame.id,
      `${why} in one message. Say less, or put it into a file and say where that is.`,
    );
  }

  #receiveRequest(request: ToolCallRequest): Action[] {
    const { id, name } = request;
    const isRetry = (request.retry ?? 0) > this.#memory.retry(id); // ws.md 5.13
    const seen = this.#memory.stage(id);
    const stage = isRetry && seen === 'answered' ? undefined : seen;
    if (this.#calls.has(id) || stage === 'answered' || stage === 'over') return []; // ws.md 6.3
    const tool = this.#tools.get(name);
    if (stage && !(tool && mayRepeat(tool))) {
      // ws.md 6.4: an earlier page started it
      return this.#fail(
        id,
        `This device was restarted while it ran '${name}': its outcome is unknown.`,
        'unknown_outcome',
      );
    }
    if (!tool) return this.#missing(request);
    if (!tool.handler) return this.#fail(id, 'No handler registered');
    const problems = problemsOf(tool.offer.parameters, request.args ?? {});
    if (problems) return this.#fail(id, problems, 'invalid_arguments');
    const ms = request.timeout_ms ?? timeOf(tool);
    this.#calls.set(id, { request, time: ms, isRunning: false, isSettled: false });
    return [{ do: 'timeout', id, ms }, ...this.#startCalls()];
  }

  #receiveAcknowledged(ids: string[]): Action[] {
    const known = ids.filter((id) => this.#memory.stage(id) === 'answered');
    for (const id of known) this.#memory.close(id);
    return known.length ? [{ do: 'save' }] : [];
  }

  #receiveCancel(id: string, reason: string): Action[] {
    const call = this.#calls.get(id);
    if (!call || call.isSettled) return [];
    call.isSettled = true;
    this.#memory.close(id);
    if (call.isRunning) return [{ do: 'stop', id, reason }];
    this.#calls.delete(id);
    return [];
  }

  #receivePermission(request: PermissionRequest): Action[] {
    const { id } = request;
    if (this.#permissions.has(id)) {
      const answer = this.#permissions.get(id); // asked again after a drop
      return answer ? [send(answer)] : [];
    }
    this.#permissions.set(id, undefined);
    for (const oldest of this.#permissions.keys()) {
      if (this.#permissions.size <= MAX_QUESTIONS) break;
      this.#permissions.delete(oldest);
    }
    return [{ do: 'ask', request: { ...request, tool: this.#ownName(request.tool) } }];
  }

  /** Take back the questions of these that have no answer yet: their calls have ended (ws.md 5.9). */
  #stopAsking(ids: Iterable<string>): Action[] {
    const open = [...ids].filter((id) => this.#permissions.has(id) && !this.#permissions.get(id));
    for (const id of open) this.#permissions.delete(id);
    return open.map((id) => ({ do: 'stop', id, reason: 'the question is over' }));
  }

  #loginRequest(callId: string): LoginRequest {
    const answer = this.#memory.findAnswer(callId);
    const { authorize_intent: intent = '', resolution_hint: hint = '' } = answer?.type === 'tool_error' ? answer : {};
    return { callId, intent, hint };
  }

  // Calls and tools.

  /** Start waiting calls while fewer than `concurrency` run, the oldest first. */
  #startCalls(): Action[] {
    const actions: Action[] = [];
    let left = this.#concurrency - [...this.#calls.values()].filter((call) => call.isRunning).length;
    for (const [id, call] of this.#calls) {
      if (left < 1) break;
      if (call.isRunning) continue;
      const tool = this.#tools.get(call.request.name);
      if (!tool?.handler) {
        this.#calls.delete(id); // it was unregistered while the call waited
        actions.push(...this.#missing(call.request));
        continue;
      }
      left -= 1;
      call.isRunning = true;
      this.#memory.start(id, call.request.retry);
      const asksPerson = Boolean(tool.permissions?.length) && !this.capabilities.has('permissions');
      actions.push({ do: 'run', request: call.request, tool, isRecorded: !mayRepeat(tool), asksPerson });
    }
    return actions;
  }

  #missing({ id, name }: ToolCallRequest): Action[] {
    return this.#fail(id, `Tool '${name}' is not available on this device.`, 'tool_not_found');
  }

  #fail(id: string, error: string, code?: string): Action[] {
    return this.#storeAnswer(toolError(id, error, code));
  }

  /** Store the answer and send it. Without a link it is sent after the next connect. */
  #storeAnswer(given: Answer): Action[] {
    const answer = shortenError(given, this.limits);
    this.#memory.answer(answer);
    return [{ do: 'save' }, ...(this.isConnected ? [send(answer)] : [])];
  }

  /** Frames with these tools, as many as needed. A tool that fits into no frame is rejected here. */
  #offerFrames(tools: Iterable<OfferedTool>): Action[] {
    const frames: object[][] = [];
    let left = -1;
    for (const { name, offer } of tools) {
      const size = sizeOf(offer) + 1;
      if (size > spaceIn(this.limits)) {
        this.rejected[name] =
          `It has ${size} bytes, and the gateway takes ${this.limits.message_bytes} in one message.`;
        continue;
      }
      if (size > left) {
        frames.push([]);
        left = Math.min(MAX_OFFERED, spaceIn(this.limits));
      }
      left -= size;
      frames.at(-1)?.push(offer);
    }
    return frames.map((offers) => send({ type: 'register_tools', tools: offers }));
  }

  /** The device's own name of a tool that the gateway knows with the label before it (ws.md 7.1). */
  #ownName(name: string): string {
    const own = name.slice(this.label.length + 2);
    return this.label && name.startsWith(`${this.label}__`) && this.#tools.has(own) ? own : name;
  }
}

function send(frame: ClientFrame): Action {
  return { do: 'send', frame };
}
