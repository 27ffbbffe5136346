import { signal } from '@preact/signals';
import type { SwitchList } from 'handspan/rest';
import { onUpdate, Reader } from './live.ts';
import { rest } from './rest.ts';

const switches = signal<SwitchList | undefined>(undefined);
const reader = new Reader(switches, signal(''), () => rest.get('/api/switches'));
let isRead = false;

/** Reads once what is switched off, for all calls of a chat together; from then on live updates keep it fresh. */
export function readSwitches(): void {
  if (isRead) return;
  isRead = true;
  void reader.read();
  onUpdate(({ topic }) => {
    if (topic === 'ready' || topic === 'tools') void reader.read();
  });
}

/** Whether a tool is switched off by its own name, for all agents. */
export function isSwitchedOff(tool: string): boolean {
  return switches.value?.disabled.includes(tool) ?? false;
}

/** Switches a tool on or off for all agents. */
export async function switchTool(tool: string, isOn: boolean): Promise<void> {
  await rest.post(isOn ? '/api/switches/enable' : '/api/switches/disable', { body: { pattern: tool } });
  await reader.readNow();
}
