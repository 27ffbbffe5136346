import type { Conversation } from './conversation.ts';
import { exportText } from './view.ts';

/** Gives the person the session as a file of Markdown. */
export function saveChat(chat: Conversation): void {
  const name = chat.record.value?.name || 'chat';
  const link = document.createElement('a');
  link.href = URL.createObjectURL(new Blob([exportText(name, chat.entries.value)], { type: 'text/markdown' }));
  link.download = `${name.replace(/[^\p{L}\p{N}]+/gu, '-').slice(0, 60)}.md`;
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 10_000);
}
