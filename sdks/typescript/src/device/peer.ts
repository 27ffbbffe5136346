import type { Action } from './actions.js';
import {
  type Answer,
  type AnswerFrame,
  type ClientFrame,
  DEFAULT_LIMITS,
  type Decision,
  type Hello,
  type Json,
  type MessageFrame,
  type PermissionAnswer,
  type PermissionRequest,
  type ServerFrame,
  type ToolCallRequest,
  toolError,
} from './frames.js';
import type { Memory } from './memory.js';
import { Questions } from './questions.js';
import { problemsOf } from './schema.js';
import { cut, fits, roomIn, short, shown, sizeOf } from './sizes.js';
import { Talk } from './talk.js';
import { mayRepeat, type OfferedTool, timeOf } from './tool.js';

const MOST_OFFERED = 256 * 1024;
const MOST_QUESTIONS = 1000;

interface Call {
  request: ToolCallRequest;
  /** Milliseconds. */
  time: number;
  isRunning: boolean;
  /** It is answered, or nobody waits for an answer; its code may still run. */
  isSettled: boolean;
}

/**
 * The device's side of ws.md without a socket, a clock or code that runs: what happens goes in, what to do comes out.
 * It keeps answers until they are acknowledged, and knows after a drop or a reload what to send again and what not to
 * run again.
 */
export class Peer {
  isConnected = false;
  /** The capabilities that both ends have. */
  agreed = new Set<string>();
  limits = DEFAULT_LIMITS;
  label = '';
  /** Tools that the gateway did not take, and why. */
  rejected: Record<string, string> = {};
  readonly talk = new Talk();
  readonly #questions = new Questions();
  #isOpen = false;
  #calls = new Map<string, Call>();
  #permissions = new Map<string, PermissionAnswer | undefined>();
  #hello: Hello;
  #tools: ReadonlyMap<string, OfferedTool>;
  #memory: Memory;
  #concurrency: number;

  constructor(hello: Hello, tools: ReadonlyMap<string, OfferedTool>, memory: Memory, concurrency: number) {
    this.#hello = hello;
    this.#tools = tools;
    this.#memory = memory;
    this.#concurrency = concurrency;
  }

  // The link.

  /** A link is up: say who is there and what it offers, without waiting (ws.md 1.5). */
  opened(): Action[] {
    this.#isOpen = true;
    this.rejected = {};
    const resume = this.#memory.resumeToken || undefined;
    const last_event = resume ? this.talk.lastEvent : undefined;
    return [send({ ...this.#hello, resume, last_event }), ...this.#offers(this.#tools.values())];
  }

  /** The link is gone, with everything that was not sent yet. */
  dropped(): void {
    this.#isOpen = this.isConnected = false;
    if (this.agreed.has('resume')) return;
    for (const [id, call] of this.#calls) {
      call.isSettled = true; // ws.md 6.6: the gateway has ended its calls
      if (!call.isRunning) this.#calls.delete(id);
    }
  }

  heard(frame: ServerFrame): Action[] {
    switch (frame.type) {
      case 'tool_call_request':
        return this.#requested(frame);
      case 'result_acknowledged':
        return this.#acknowledged([frame.id ?? '', ...(frame.ids ?? [])]);
      case 'tool_cancel':
        return this.#cancelled(frame.id, frame.reason);
      case 'permission_request':
        return this.#asked(frame);
      case 'connected':
        return this.#connected(frame);
      case 'tools_registered':
        for (const { name, reason } of frame.rejected ?? []) this.rejected[name] = reason;
        return [];
      default:
        return [...this.#questions.heard(frame), ...this.talk.heard(frame)];
    }
  }

  /** Say something in the session, now or as soon as the gateway is there. */
  say(content: string, id: string): Action[] {
    const frame = { type: 'message', content, id } as const;
    this.talk.begin(frame);
    return this.isConnected ? this.#said([frame]) : [];
  }

  // The tools.

  /** A tool is new, or changed, or gone. */
  changed(name: string): Action[] {
    const tool = this.#tools.get(name);
    if (!this.#isOpen) return [];
    if (tool) return this.#offers([tool]);
    return this.agreed.has('unregister') ? [send({ type: 'unregister_tools', names: [name] })] : [];
  }

  // The calls.

  /** The code of a call has ended, with this answer, or stopped without one. */
  finished(id: string, answer: Answer | undefined): Action[] {
    const call = this.#calls.get(id);
    const actions: Action[] = [];
    this.#calls.delete(id);
    if (call && !call.isSettled) {
      if (answer) actions.push(...this.#answer(answer));
      else this.#memory.close(id);
    }
    return [...actions, ...this.#start()];
  }

  /** The code of a call reports something. */
  progressed(id: string, value: Json): Action[] {
    const call = this.#calls.get(id);
    if (!call || call.isSettled || !this.isConnected || !this.agreed.has('progress')) return [];
    const tool = this.#tools.get(call.request.name);
    const ms = tool ? timeOf(tool) : call.time; // ws.md 5.7: the tool's time begins anew
    return [send({ type: 'tool_progress', id, value: shown(value, this.limits) }), { do: 'watch', id, ms }];
  }

  /** The time of a call is over. */
  expired(id: string): Action[] {
    const call = this.#calls.get(id);
    if (!call || call.isSettled) return [];
    call.isSettled = true;
    const what = `Tool '${call.request.name}' did not`;
    const limit = `within ${call.time / 1000} s`;
    if (call.isRunning) {
      return [{ do: 'stop', id, reason: 'timeout' }, ...this.#fail(id, `${what} finish ${limit}.`, 'timeout')];
    }
    this.#calls.delete(id);
    return this.#fail(id, `${what} begin ${limit}: this device is still busy with other calls.`, 'busy');
  }

  /** The person has answered. */
  permitted(id: string, decision: Decision, howToEnable: string): Action[] {
    const how_to_enable = cut(howToEnable, this.limits) || undefined;
    const answer: PermissionAnswer = { type: 'permission_answer', id, decision, how_to_enable };
    this.#permissions.set(id, answer);
    return this.isConnected ? [send(answer)] : [];
  }

  /** The person has answered a question of the session. */
  answered(answer: AnswerFrame): Action[] {
    const frame = this.#questions.answered(answer);
    if (frame && !fits(frame, this.limits)) {
      const why = `The answer has ${sizeOf(frame)} bytes, and the gateway takes ${this.limits.message_bytes}`;
      return this.#questions.refuse(frame.id, `${why} in one message: answer with less.`);
    }
    return frame && this.isConnected ? [send(frame)] : [];
  }

  /** An answer that no message could hold has another form now. */
  shrunk(answer: Answer): Action[] {
    return this.#memory.stage(answer.id) === 'answered' ? this.#answer(answer) : [];
  }

  // Frames.

  #connected(frame: ServerFrame & { type: 'connected' }): Action[] {
    this.isConnected = true;
    this.agreed = new Set(frame.capabilities);
    this.limits = { ...DEFAULT_LIMITS, ...frame.limits };
    this.label = frame.label ?? '';
    this.#memory.resumeToken = frame.resume_token ?? '';
    const actions: Action[] = [{ do: 'keep' }];
    for (const answer of this.#memory.unacknowledged()) actions.push(...this.#answerAgain(answer));
    return [...actions, ...this.#questions.unheard().map(send), ...this.#said(this.talk.open())]; // ws.md 6.5
  }

  /** Send what an earlier link, or life, did not hear acknowledged (ws.md 6.3). */
  #answerAgain(answer: Answer): Action[] {
    if (!this.agreed.has('resume')) {
      this.#memory.close(answer.id); // it was given to a gateway that has ended its call
      return [];
    }
    if (fits(answer, this.limits)) return [send(answer)];
    // This gateway takes less than the one that it was made for; sent as it is, it would end every link.
    return answer.type === 'tool_error' ? this.#answer(answer) : [{ do: 'shrink', answer }];
  }

  #said(frames: MessageFrame[]): Action[] {
    if (this.agreed.has('resume') && this.agreed.has('events')) {
      return frames.flatMap((frame) => (fits(frame, this.limits) ? send(frame) : this.#tooLarge(frame)));
    }
    return this.talk.lose("This gateway can't be talked to here: it has no 'resume' or no 'events' (ws.md 1.9).");
  }

  #tooLarge(frame: MessageFrame): Action[] {
    const why = `This has ${sizeOf(frame)} bytes and is too large to be sent: the gateway takes ${this.limits.message_bytes}`;
    return this.talk.refuse(frame.id, `${why} in one message. Say less, or put it into a file and say where that is.`);
  }

  #requested(request: ToolCallRequest): Action[] {
    const { id, name } = request;
    const stage = this.#memory.stage(id);
    if (this.#calls.has(id) || stage === 'answered' || stage === 'over') return []; // ws.md 6.3
    const tool = this.#tools.get(name);
    if (stage && !(tool && mayRepeat(tool))) {
      // ws.md 6.4: an earlier life began it
      return this.#fail(
        id,
        `This device was restarted while it ran '${name}': nobody knows what came of it.`,
        'unknown_outcome',
      );
    }
    if (!tool) return this.#missing(request);
    if (!tool.handler) return this.#fail(id, 'No handler registered');
    const problems = problemsOf(tool.offer.parameters, request.args ?? {});
    if (problems) return this.#fail(id, problems, 'invalid_arguments');
    const ms = request.timeout_ms ?? timeOf(tool);
    this.#calls.set(id, { request, time: ms, isRunning: false, isSettled: false });
    return [{ do: 'watch', id, ms }, ...this.#start()];
  }

  #acknowledged(ids: string[]): Action[] {
    const known = ids.filter((id) => this.#memory.stage(id) === 'answered');
    for (const id of known) this.#memory.close(id);
    return known.length ? [{ do: 'keep' }] : [];
  }

  #cancelled(id: string, reason: string): Action[] {
    const call = this.#calls.get(id);
    if (!call || call.isSettled) return [];
    call.isSettled = true;
    this.#memory.close(id);
    if (call.isRunning) return [{ do: 'stop', id, reason }];
    this.#calls.delete(id);
    return [];
  }

  #asked(request: PermissionRequest): Action[] {
    const { id } = request;
    if (this.#permissions.has(id)) {
      const answer = this.#permissions.get(id); // asked again after a drop
      return answer ? [send(answer)] : [];
    }
    this.#permissions.set(id, undefined);
    for (const oldest of this.#permissions.keys()) {
      if (this.#permissions.size <= MOST_QUESTIONS) break;
      this.#permissions.delete(oldest);
    }
    return [{ do: 'ask', request: { ...request, tool: this.#ownName(request.tool) } }];
  }

  // Steps.

  /** Let calls begin while there is room, in the order in which they came. */
  #start(): Action[] {
    const actions: Action[] = [];
    let room = this.#concurrency - [...this.#calls.values()].filter((call) => call.isRunning).length;
    for (const [id, call] of this.#calls) {
      if (room < 1) break;
      if (call.isRunning) continue;
      const tool = this.#tools.get(call.request.name);
      if (!tool?.handler) {
        this.#calls.delete(id); // it was taken back while the call waited
        actions.push(...this.#missing(call.request));
        continue;
      }
      room -= 1;
      call.isRunning = true;
      this.#memory.start(id);
      const asks = Boolean(tool.permissions?.length) && !this.agreed.has('permissions');
      actions.push({ do: 'run', request: call.request, tool, isRecorded: !mayRepeat(tool), asks });
    }
    return actions;
  }

  #missing({ id, name }: ToolCallRequest): Action[] {
    return this.#fail(id, `Tool '${name}' is not available on this device.`, 'tool_not_found');
  }

  #fail(id: string, error: string, code?: string): Action[] {
    return this.#answer(toolError(id, error, code));
  }

  /** Keep the answer, then send it; when the link is down, it is sent on the next one. */
  #answer(given: Answer): Action[] {
    const answer = short(given, this.limits);
    this.#memory.answer(answer);
    return [{ do: 'keep' }, ...(this.isConnected ? [send(answer)] : [])];
  }

  /** These tools in as many frames as it takes. What no frame can hold would end every link. */
  #offers(tools: Iterable<OfferedTool>): Action[] {
    const frames: object[][] = [];
    let room = -1;
    for (const { name, offer } of tools) {
      const size = sizeOf(offer) + 1;
      if (size > roomIn(this.limits)) {
        this.rejected[name] =
          `It has ${size} bytes, and the gateway takes ${this.limits.message_bytes} in one message.`;
        continue;
      }
      if (size > room) {
        frames.push([]);
        room = Math.min(MOST_OFFERED, roomIn(this.limits));
      }
      room -= size;
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
