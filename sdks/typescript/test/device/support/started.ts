// A device that runs, and the states that it was in.
import { Device } from '../../../src/device/device.js';
import type { DeviceOptions, DeviceState } from '../../../src/device/options.js';
import type { DeviceTool } from '../../../src/device/tool.js';
import { bounded, Queue } from './bounded.js';

export class Started {
  readonly device: Device;
  readonly states = new Queue<DeviceState>();
  readonly ended: Promise<DeviceState>;

  constructor(options: DeviceOptions, ...tools: DeviceTool[]) {
    this.device = new Device({
      backoff: { first: 5, longest: 20 },
      ...options,
      onState: (state) => this.states.put(state),
    });
    for (const tool of tools) this.device.tool(tool);
    this.ended = this.device.run();
  }

  /** The next state of this name, whatever came before it. */
  async until(status: DeviceState['status']): Promise<DeviceState> {
    for (;;) {
      const state = await this.states.next(`state ${status}`);
      if (state.status === status) return state;
    }
  }

  async close(): Promise<DeviceState> {
    this.device.close();
    return bounded(this.ended, 'the end of the device');
  }
}

/** A tool that reads something, with as little as possible. */
export function tool(name: string, handler: DeviceTool['handler'], more: Partial<DeviceTool> = {}): DeviceTool {
  const annotations = { read_only: true };
  return { name, description: 'A tool of a test.', parameters: { type: 'object' }, annotations, handler, ...more };
}
