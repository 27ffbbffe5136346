import { signal } from '@preact/signals';

const KEY = 'handspan.chat';

/** The id of the chat that was open last in this browser; empty when there is none. */
export const lastChat = signal(localStorage.getItem(KEY) ?? '');

/** Notes which chat is open. */
export function rememberChat(id: string): void {
  lastChat.value = id;
  localStorage.setItem(KEY, id);
}

/** Forgets a chat that is gone. */
export function forgetChat(id: string): void {
  if (lastChat.value === id) rememberChat('');
}
