import { go } from '../router.ts';
import { isDetailed, setDetailed } from './call.tsx';
import { archiveChat, pinChat } from './chats.ts';
import type { Completion } from './completions.ts';
import type { Conversation } from './conversation.ts';
import { saveChat } from './export.ts';
import { chooseModel } from './model-choice.tsx';

/** What `/` can do in a chat. What has no meaning in it now is left out. */
export function commands(chat: Conversation, onKeys: () => void): Completion[] {
  const isBegun = chat.messages.value.length > 0;
  const record = chat.record.value;
  const all: (Completion | false)[] = [
    { name: 'new', text: 'Begin a new chat', icon: 'plus', run: () => go('chat') },
    { name: 'model', text: 'Choose the model of this chat', icon: 'model', run: () => setTimeout(chooseModel, 50) },
    isBegun &&
      !chat.isRunning.value && { name: 'retry', text: 'Answer again', icon: 'redo', run: () => chat.regenerate() },
    isBegun && { name: 'edit', text: 'Edit the last message', icon: 'edit', run: () => void chat.editLast() },
    isBegun && { name: 'export', text: 'Save this chat as a file', icon: 'download', run: () => saveChat(chat) },
    record !== undefined &&
      isBegun && {
        name: record.pinned ? 'unpin' : 'pin',
        text: record.pinned ? 'Let it go down in the list' : 'Keep it on top of the list',
        icon: 'pin',
        run: () => void pinChat(record),
      },
    record !== undefined &&
      isBegun && {
        name: 'archive',
        text: 'Put it away; it can be found again',
        icon: 'archive',
        run: () => void archiveChat(record),
      },
    {
      name: isDetailed.value ? 'compact' : 'detailed',
      text: isDetailed.value ? 'Show calls as one line' : 'Show calls with arguments and results',
      icon: 'compact',
      run: () => setDetailed(!isDetailed.value),
    },
    chat.isRunning.value && { name: 'stop', text: 'Stop the answer', icon: 'stop', run: () => chat.stop() },
    { name: 'keys', text: 'Which keys there are', icon: 'question', run: onKeys },
  ];
  return all.filter((one): one is Completion => one !== false);
}
