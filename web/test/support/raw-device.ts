import { onTestFinished } from 'vitest';
import type { TestGateway } from '../../../sdks/typescript/test/support/gateway.js';

interface Frame {
  type: string;
  [field: string]: unknown;
}

/** A device that speaks frames itself, for what only a bridge says (ws.md 7.4, 7.5). */
export class RawDevice {
  readonly received: Frame[] = [];

  private constructor(private readonly socket: WebSocket) {}

  static async connect({ url, token }: TestGateway, label: string): Promise<RawDevice> {
    const socket = new WebSocket(`${url.replace('http', 'ws')}/ws/chat`, ['handspan.v1', `bearer.${token}`]);
    const device = new RawDevice(socket);
    onTestFinished(() => socket.close());
    socket.addEventListener('message', ({ data }) => device.received.push(JSON.parse(String(data)) as Frame));
    await new Promise((opened) => socket.addEventListener('open', opened));
    const about = {
      role: 'device',
      label,
      prefix: false,
      device_name: `${label}’s app`,
      capabilities: ['about', 'trust'],
    };
    device.send({ type: 'connect', v: 1, ...about });
    return device;
  }

  send(frame: Frame): void {
    this.socket.send(JSON.stringify(frame));
  }
}
