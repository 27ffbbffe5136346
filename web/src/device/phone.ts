import { signal } from '@preact/signals';
import { afterGesture, askBrowser, type BrowserTool, BrowserToolError, needsPermission } from 'handspan/browser';
import {
  Device,
  type DeviceState,
  localState,
  type PermissionAnswer,
  type PermissionQuestion,
  pair,
} from 'handspan/device';
import { showInvisible } from '../parts/invisible.ts';
import { stayAwake } from './awake.ts';
import { type ScannedCode, takeScannedCode } from './scanned.ts';
import { onSettings, type PhoneSettings, readSettings, writeSettings } from './settings.ts';
import { TOOLS, whyNot } from './tools.ts';

/** One call, as the person sees it. */
export interface ShownCall {
  id: number;
  tool: string;
  arguments: string;
  state: 'runs' | 'done' | 'failed';
  /** What came of it, in a line. */
  text: string;
  /** The photo, as an address of this page. */
  image?: string;
  began: number;
  milliseconds?: number;
}

/** A question to the person: before a call, or for the tap without which the browser opens nothing. */
export interface PhoneQuestion {
  tool: string;
  arguments: string;
  agent: string;
  /** `tap`: the browser needs a tap of the person; there is nothing to refuse for ever. */
  kind: 'permission' | 'tap';
  /** What the call needs of the browser, such as `geolocation`; empty for a tap. */
  permission: string;
  answer: (allowed: boolean) => void;
}

const MAX_CALLS = 20;
/** The code with which the gateway closes a connection whose client has a newer one (ws.md 9.2). */
const REPLACED = 4001;

/** This phone as a device of the gateway. */
class Phone {
  readonly settings = signal<PhoneSettings>(readSettings());
  readonly state = signal<DeviceState>({ status: 'closed', reason: '' });
  readonly problem = signal('');
  /** The code that was scanned, while the person chooses between the app and this browser: the first that uses it has it. */
  readonly scanned = signal<ScannedCode | undefined>(undefined);
  readonly calls = signal<ShownCall[]>([]);
  readonly questions = signal<PhoneQuestion[]>([]);
  #device: Device | undefined;
  #calls = 0;

  /** Pair with the code of the address, if it has one, and connect. Where the app may want the code, wait for the person. */
  async start(): Promise<void> {
    // Another tab of this browser has changed them: what this one writes next must not take that back.
    onSettings((settings) => {
      this.settings.value = settings;
      if (!settings.token) this.#device?.close();
    });
    const scanned = takeScannedCode();
    if (scanned?.app) this.scanned.value = scanned;
    else if (scanned) await this.pair(scanned.code);
    else if (this.settings.value.token) this.connect();
  }

  /** Use the scanned code here, not in the app. */
  async useBrowser({ code }: ScannedCode): Promise<void> {
    this.scanned.value = undefined;
    await this.pair(code);
  }

  /** Exchange a pairing code for a token, and connect. */
  async pair(code: string): Promise<void> {
    this.problem.value = '';
    try {
      const link = `${new URL('./device', location.href).href}#code=${code.trim()}`;
      const { token } = await pair(link, { label: this.settings.value.label });
      this.change({ token });
      this.connect();
    } catch (error) {
      this.problem.value = error instanceof Error ? error.message : String(error);
    }
  }

  /** Forget the token: this phone is a device no more. */
  leave(): void {
    this.#device?.close();
    this.change({ token: '' });
  }

  change(changes: Partial<PhoneSettings>): void {
    this.settings.value = { ...this.settings.value, ...changes };
    writeSettings(this.settings.value);
  }

  /** Switch a tool on or off; the gateway learns it at once. */
  setTool(name: string, isOn: boolean): void {
    const off = this.settings.value.off.filter((one) => one !== name);
    this.change({ off: isOn ? off : [...off, name] });
    if (isOn) this.#offer(name);
    else this.#device?.unregister(name);
  }

  isOffered(name: string): boolean {
    return !whyNot(name) && !this.settings.value.off.includes(name);
  }

  connect(): void {
    const { token, label } = this.settings.value;
    this.#device = new Device({
      url: new URL('.', location.href).href,
      token,
      label,
      state: localState(),
      concurrency: 4,
      onState: (state) => this.#setState(state),
      onPermission: (question) => this.#decide(question),
    });
    for (const { name } of TOOLS) this.#offer(name);
    void this.#device.run().catch((error: unknown) => {
      this.problem.value = String(error);
    });
  }

  #offer(name: string): void {
    const tool = TOOLS.find((one) => one.name === name);
    if (!tool || !this.isOffered(name)) return;
    const ready = afterGesture(tool, (one, stopped) => this.#askForTap(one, stopped));
    this.#device?.tool({ ...ready, handler: (args, context) => this.#run(ready, args, context) });
  }

  #setState(state: DeviceState): void {
    this.state.value = state;
    stayAwake(state.status === 'online');
    if (state.status !== 'closed' || !state.reason || !this.settings.value.token) return;
    if (state.code === REPLACED) {
      this.problem.value = 'This phone is open in another tab, which counts now. Load this page again to use it here.';
      return;
    }
    // A gateway that does not know the token any more closes for good: the person has to pair anew.
    this.problem.value = state.reason;
    this.change({ token: '' });
  }

  async #run(tool: BrowserTool, args: object, context: { signal?: AbortSignal | undefined }): Promise<unknown> {
    this.#calls += 1;
    const call: ShownCall = {
      id: this.#calls,
      tool: tool.name,
      arguments: lineOf(args),
      state: 'runs',
      text: '',
      began: Date.now(),
    };
    this.#show(call);
    try {
      const result = await tool.handler(args, context);
      const image =
        result instanceof Blob && result.type.startsWith('image/') ? URL.createObjectURL(result) : undefined;
      this.#show({ ...call, ...ended(call), state: 'done', text: textOf(result), ...(image && { image }) });
      return result;
    } catch (error) {
      const text = error instanceof Error ? error.message : String(error);
      this.#show({ ...call, ...ended(call), state: 'failed', text });
      throw error;
    }
  }

  #show(call: ShownCall): void {
    const others = this.calls.value.filter(({ id }) => id !== call.id);
    for (const { image } of others.slice(MAX_CALLS - 1)) if (image) URL.revokeObjectURL(image);
    this.calls.value = [call, ...others].sort((a, b) => b.id - a.id).slice(0, MAX_CALLS);
  }

  /** The browser's own no comes first; then the person is asked, if they want to be. */
  async #decide(question: PermissionQuestion): Promise<PermissionAnswer> {
    const { tool, agent, permission, signal: stopped } = question;
    if (!needsPermission(question)) return 'allow';
    const byBrowser = await askBrowser(question);
    if (byBrowser !== 'allow') this.#showDenied(tool, byBrowser.howToEnable);
    if (byBrowser !== 'allow' || !this.settings.value.asks) return byBrowser;
    const isAllowed = await this.#ask(
      { tool, agent, arguments: lineOf(question.arguments), kind: 'permission', permission },
      stopped,
    );
    return isAllowed ? 'allow' : 'deny';
  }

  /** The browser said no for ever: only the person can change that, and has to know where. */
  #showDenied(tool: string, where: string): void {
    this.#calls += 1;
    const text = `This browser denies it for ever. To allow it, change ${where}.`;
    this.#show({ id: this.#calls, tool, arguments: '', state: 'failed', text, began: Date.now() });
  }

  async #askForTap(tool: BrowserTool, stopped: AbortSignal | undefined): Promise<void> {
    const isAllowed = await this.#ask(
      { tool: tool.name, agent: '', arguments: '', kind: 'tap', permission: '' },
      stopped,
    );
    if (!isAllowed) throw new BrowserToolError('dismissed', 'The person did not want it.');
  }

  /** Wait for the person, who may be away: the question stays until it is answered or its call has ended. */
  #ask(question: Omit<PhoneQuestion, 'answer'>, stopped: AbortSignal | undefined): Promise<boolean> {
    if (stopped?.aborted) return Promise.resolve(false); // while the browser was asked
    return new Promise((resolve) => {
      const shown: PhoneQuestion = {
        ...question,
        answer: (allowed) => {
          this.questions.value = this.questions.value.filter((one) => one !== shown);
          resolve(allowed);
        },
      };
      stopped?.addEventListener('abort', () => shown.answer(false), { once: true });
      this.questions.value = [...this.questions.value, shown];
    });
  }
}

function ended({ began }: ShownCall): { milliseconds: number } {
  return { milliseconds: Date.now() - began };
}

function lineOf(args: object): string {
  return Object.entries(args)
    .map(([name, value]) => `${name}: ${showInvisible(typeof value === 'string' ? value : JSON.stringify(value))}`)
    .join(', ');
}

function textOf(result: unknown): string {
  if (result instanceof Blob) return `${result.type || 'a file'}, ${Math.ceil(result.size / 1024)} KB`;
  return typeof result === 'string' ? result : (JSON.stringify(result) ?? 'done');
}

export const phone = new Phone();
