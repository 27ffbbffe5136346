import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { existsSync, mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';

const PYTHON = fileURLToPath(new URL('../../../../.venv/bin/python', import.meta.url));
const SECONDS_TO_START = 100;

/** A real gateway in a process of its own, whose model does what the person's message says (handspan.testing.spoken). */
export class TestGateway {
  url = '';
  token = '';
  private process: ChildProcess | undefined;
  private said = '';
  private readonly folder = mkdtempSync(join(tmpdir(), 'handspan-sdk-'));

  private constructor(private readonly options: readonly string[]) {}

  /** Starts one and waits until it answers. `options` are more of `python -m handspan.testing`. */
  static async start(...options: string[]): Promise<TestGateway> {
    const gateway = new TestGateway(options);
    await gateway.launch();
    return gateway;
  }

  /** Ends it without a goodbye and starts it again, at the same address and with the same state. */
  async restart(): Promise<void> {
    await this.kill();
    await this.launch();
  }

  /** Ends it at once (SIGKILL). */
  async kill(): Promise<void> {
    const process = this.process;
    this.process = undefined;
    if (process === undefined || process.exitCode !== null || process.signalCode !== null) return;
    const ended = once(process, 'exit');
    process.kill('SIGKILL');
    await ended;
  }

  /** Ends it and removes what it left. */
  async close(): Promise<void> {
    await this.kill();
    rmSync(this.folder, { recursive: true, force: true });
  }

  private async launch(): Promise<void> {
    const ready = join(this.folder, 'ready.json');
    rmSync(ready, { force: true });
    const port = this.url === '' ? '0' : new URL(this.url).port;
    const places = ['--state', join(this.folder, 'state'), '--workspace', join(this.folder, 'workspace')];
    const words = ['-m', 'handspan.testing', '--ready-file', ready, '--port', port, ...places, ...this.options];
    const process = spawn(PYTHON, words, { stdio: ['ignore', 'pipe', 'pipe'] });
    this.process = process;
    for (const stream of [process.stdout, process.stderr]) stream.on('data', (text) => (this.said += text));
    const told = await this.told(ready, process);
    this.url = told.url;
    this.token = told.token;
  }

  private async told(file: string, process: ChildProcess): Promise<{ url: string; token: string }> {
    const last = Date.now() + SECONDS_TO_START * 1000;
    while (!existsSync(file)) {
      if (process.exitCode !== null || Date.now() > last) throw new Error(`The gateway did not start: ${this.said}`);
      await new Promise((resolve) => setTimeout(resolve, 20));
    }
    return JSON.parse(readFileSync(file, 'utf8'));
  }
}
