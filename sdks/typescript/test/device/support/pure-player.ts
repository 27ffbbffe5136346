// A device that is nothing but its state machine: no socket, no clock, no code that runs.
import type { Action } from '../../../src/device/actions.js';
import { ClientState } from '../../../src/device/client-state.js';
import {
  type Answer,
  type Decision,
  type Json,
  type JsonObject,
  readFrame,
  type ToolCallRequest,
  type ToolResultFrame,
  toolError,
} from '../../../src/device/frames.js';
import { LoginRequired } from '../../../src/device/login.js';
import { CallMemory } from '../../../src/device/memory.js';
import { encodeError, encodeLogin, encodeResult, shrinkResult } from '../../../src/device/results.js';
import { type OfferedTool, withOffer } from '../../../src/device/tool.js';
import type { Case } from './cases.js';
import { fieldsOf, type Player, returnedBy } from './walking.js';

const NOW = 1_700_000_000;
const CAN = ['resume', 'progress', 'cancel', 'deadline', 'parts', 'permissions', 'unregister', 'ack_batch', 'login'];

type Run = Action & { do: 'run' };

export class PurePlayer implements Player {
  private readonly tools = new Map<string, OfferedTool>();
  private file: string | null = null;
  private readonly counts = new Map<string, number>();
  private memory!: CallMemory;
  private peer!: ClientState;
  private frames: JsonObject[] = [];
  private events: Json[] = [];
  private messages: Json[] = [];
  private running = new Set<string>();
  private stopped = new Set<string>();
  private asking = new Map<string, string | Run>();
  private large: ToolResultFrame[] = [];
  private questions = new Set<string>();
  private readonly logins = new Map<string, string>();
  private readonly requests = new Map<string, ToolCallRequest>();

  constructor(private readonly given: Case) {
    for (const { code = true, ...tool } of given.tools) {
      this.tools.set(tool.name, withOffer({ ...tool, handler: code ? never : undefined }));
    }
    this.begin();
  }

  private begin(): void {
    const { role = 'device', label, concurrency = 1, messages = false } = this.given.client;
    const ofChats = role === 'chat' ? ['events', 'questions', 'question_kinds'] : [];
    const capabilities = [...CAN, ...ofChats, ...(messages ? ['messages'] : [])];
    const introduction = { type: 'connect', v: 1, role, label, capabilities, device_name: 'test' } as const;
    this.memory = new CallMemory(this.file, () => NOW);
    this.peer = new ClientState(introduction, this.tools, this.memory, concurrency);
    this.frames = [];
    this.events = [];
    this.messages = [];
    this.running = new Set();
    this.stopped = new Set();
    this.asking = new Map();
  }

  async up(): Promise<void> {
    this.do(this.peer.openLink());
  }

  async drop(): Promise<void> {
    this.frames = [];
    this.peer.dropLink();
  }

  async say(frame: JsonObject): Promise<void> {
    const read = readFrame(JSON.stringify(frame));
    if (read) this.do(this.peer.receive(read));
    for (let answer = this.large.shift(); answer; answer = this.large.shift()) {
      const { id } = answer;
      const small = await shrinkResult(answer, this.peer.capabilities, this.peer.limits, never).catch((why) =>
        encodeError(id, why),
      );
      this.do(this.peer.replaceAnswer(small));
    }
  }

  async sent(): Promise<JsonObject> {
    const frame = this.frames.shift();
    if (!frame) throw new Error('nothing was sent');
    return frame;
  }

  async nothingMore(): Promise<JsonObject[]> {
    return this.frames;
  }

  async end(callId: string, how: JsonObject): Promise<void> {
    if (!this.running.has(callId)) throw new Error(`${callId} does not run`);
    if ('returns' in how) {
      const value = returnedBy(how.returns as Json);
      const answer = encodeResult(callId, value, this.peer.capabilities, this.peer.limits, never);
      this.finish(callId, await answer.catch((why) => encodeError(callId, why)));
    } else if ('raises' in how) {
      this.finish(callId, this.failure(callId, how));
    } else if ('progress' in how) {
      this.do(this.peer.reportProgress(callId, how.progress as Json));
    } else {
      if (!this.stopped.has(callId)) throw new Error(`${callId} was not told to stop`);
      this.finish(callId, undefined);
    }
  }

  async decide(permission: string, decision: Decision, howToEnable: string): Promise<void> {
    const asked = this.asking.get(permission);
    this.asking.delete(permission);
    if (asked === undefined) throw new Error(`no question asks for ${permission}`);
    if (typeof asked === 'string') this.do(this.peer.answerPermission(asked, decision, howToEnable));
    else if (decision === 'allow') this.run(asked);
    else {
      const text = `Permission '${permission}' was denied by the user`;
      this.finish(asked.request.id, toolError(asked.request.id, text, 'permission_denied'));
    }
  }

  async answer(id: string, said: JsonObject): Promise<void> {
    if (!this.questions.delete(id)) throw new Error(`no open question ${id}`);
    this.do(this.peer.answerQuestion({ type: 'answer', id, ...(said as unknown as { decision: Decision }) }));
  }

  async loginBegun(callId: string): Promise<string> {
    return this.logins.get(callId) ?? 'none';
  }

  private failure(id: string, { raises, code = '', hint = '', intent = '' }: JsonObject): Answer {
    const request = this.requests.get(id);
    if (code !== 'auth_required' || !request) return toolError(id, String(raises), String(code));
    const login = new LoginRequired(String(raises), { hint: String(hint), intent: String(intent) });
    return encodeLogin(request, login, this.peer.capabilities);
  }

  async restart(): Promise<void> {
    if (!this.given.client.state) this.file = null;
    this.begin();
  }

  async unregister(name: string): Promise<void> {
    this.tools.delete(name);
    this.do(this.peer.changeTool(name));
  }

  runs(tool: string): number {
    return this.counts.get(tool) ?? 0;
  }

  async speak(text: string): Promise<void> {
    this.do(this.peer.sendMessage(text, crypto.randomUUID()));
  }

  async heard(): Promise<Json[]> {
    return this.events;
  }

  async shown(): Promise<Json[]> {
    return this.messages;
  }

  private finish(callId: string, answer: Answer | undefined): void {
    this.running.delete(callId);
    this.do(this.peer.finishCall(callId, answer));
  }

  private run(run: Run): void {
    if (run.isRecorded) this.file = this.memory.encode();
    this.running.add(run.request.id);
    this.requests.set(run.request.id, run.request);
    this.counts.set(run.tool.name, this.runs(run.tool.name) + 1);
  }

  private do(actions: Action[]): void {
    for (const action of actions) {
      if (action.do === 'send') this.frames.push(JSON.parse(JSON.stringify(action.frame)));
      else if (action.do === 'save') this.file = this.memory.encode();
      else if (action.do === 'shrink') this.large.push(action.answer);
      else if (action.do === 'run' && action.asksPerson) this.asking.set(action.tool.permissions?.[0] ?? '', action);
      else if (action.do === 'run') this.run(action);
      else if (action.do === 'stop') this.stopped.add(action.id);
      else if (action.do === 'login') this.logins.set(action.request.callId, action.request.intent);
      else if (action.do === 'ask') this.asking.set(action.request.permission, action.request.id);
      else if (action.do === 'message' && this.given.client.messages) this.messages.push(fieldsOf(action.message));
      else if (action.do === 'question') {
        if (this.questions.has(action.question.id)) throw new Error('it was asked before');
        this.questions.add(action.question.id);
      } else if (action.do === 'event') this.events.push({ ...action.event } as JsonObject);
    }
  }
}

function never(): never {
  throw new Error('the state machine calls nothing');
}
