import { signal } from '@preact/signals';
import type { Status, WhoAmI } from 'handspan/rest';
import { onUpdate } from './live.ts';
import { messageOf, rest } from './rest.ts';

/** Whether this browser is signed in: undefined until the gateway has answered. */
export const account = signal<WhoAmI | null | undefined>(undefined);
export const status = signal<Status | undefined>(undefined);
/** Why the gateway does not answer; empty when it does. */
export const unreachable = signal('');

/** Why this model answers, to be read after its name. */
export function shortWhy({ why }: { why: string }): string {
  return why.replace(/^[^,:]*[,:] ?/, '');
}

export function isAdmin(): boolean {
  return account.value?.scopes.includes('admin') ?? false;
}

/** Asks who is signed in here, and what the gateway has. */
export async function readAccount(): Promise<void> {
  try {
    account.value = await rest.get('/api/me');
    unreachable.value = '';
    status.value = await rest.get('/api/status');
  } catch (error) {
    if ((error as { status?: number }).status === 401) account.value = null;
    else unreachable.value = messageOf(error);
  }
}

onUpdate(({ topic }) => {
  if (topic === 'ready' || topic === 'models' || topic === 'agents') void readAccount();
});

export async function signOut(): Promise<void> {
  await rest.post('/api/signout');
  account.value = null;
}
