import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { createInterface } from 'node:readline';
import { fileURLToPath } from 'node:url';

const PYTHON = fileURLToPath(new URL('../../../../../.venv/bin/python', import.meta.url));
const SCRIPT = fileURLToPath(new URL('seed_gateway.py', import.meta.url));
const SECONDS_TO_START = 100;

/** A gateway that is also known as localhost:8000, whose model answers the question of the seed's example. */
export class SeedGateway {
  private constructor(
    readonly url: string,
    private readonly token: string,
    private readonly process: ChildProcess,
  ) {}

  static async start(): Promise<SeedGateway> {
    const process = spawn(PYTHON, [SCRIPT], { stdio: ['pipe', 'pipe', 'inherit'] });
    const signal = AbortSignal.timeout(SECONDS_TO_START * 1000);
    try {
      const [line] = await once(createInterface(process.stdout), 'line', { signal });
      const { url, token } = JSON.parse(line);
      return new SeedGateway(url, token, process);
    } catch (error) {
      process.kill('SIGKILL');
      throw error;
    }
  }

  /** The path of a link that signs one browser in. */
  async signInPath(): Promise<string> {
    const headers = { authorization: `Bearer ${this.token}` };
    const answer = await fetch(`${this.url}/api/signin`, { method: 'POST', headers });
    const { url } = (await answer.json()) as { url: string };
    return new URL(url).pathname + new URL(url).search;
  }

  async close(): Promise<void> {
    const ended = once(this.process, 'exit');
    this.process.stdin?.end();
    await ended;
  }
}
