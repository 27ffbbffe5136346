// What a person does with a chat, wherever they do it: in the list, in its menu, by a command.
import type { SessionUpdate, SessionView } from 'handspan/rest';
import { rest } from '../gateway/rest.ts';
import { confirm } from '../parts/confirm.tsx';
import { attempt, toast } from '../parts/toast.tsx';
import { go, route } from '../router.ts';
import { forgetChat } from './last.ts';

/** Changes the name, the model or the marks of a chat. */
export async function changeChat(id: string, change: SessionUpdate): Promise<void> {
  await rest.put('/api/sessions/{session_id}', { path: { session_id: id }, body: change });
}

export function pinChat({ session_id: id, pinned }: SessionView): Promise<boolean> {
  return attempt(() => changeChat(id, { pinned: !pinned }));
}

/** Puts a chat away, or takes it back. */
export async function archiveChat({ session_id: id, archived }: SessionView): Promise<void> {
  const isDone = await attempt(() => changeChat(id, { archived: !archived }));
  if (isDone && !archived) {
    leaveChat(id);
    const undo = () => attempt(() => changeChat(id, { archived: false }));
    toast('The chat is archived.', { action: { label: 'Undo', run: () => void undo() } });
  }
}

/** Deletes a chat. For a while it can be taken back. */
export async function deleteChat({ session_id: id, name }: SessionView): Promise<void> {
  const path = { session_id: id };
  const text = 'Its messages, its calls and its files are removed.';
  if (!(await confirm(`Delete “${name || 'this chat'}”?`, text, 'Delete'))) return;
  await attempt(async () => {
    const { until } = await rest.delete('/api/sessions/{session_id}', { path, query: { undo: true } });
    const wasOpen = leaveChat(id);
    const undo = () =>
      attempt(async () => {
        await rest.post('/api/sessions/{session_id}/restore', { path });
        if (wasOpen) go('chat', [id]);
      });
    if (!until) toast('The chat is deleted.');
    else {
      const seconds = Math.max(1, (new Date(until).getTime() - Date.now()) / 1000 - 1);
      toast('The chat is deleted.', { action: { label: 'Undo', run: () => void undo() }, seconds });
    }
  });
}

/** Leaves the chat if it is open; returns whether it was. */
function leaveChat(id: string): boolean {
  forgetChat(id);
  const isOpen = route.value.page === 'chat' && route.value.rest[0] === id;
  if (isOpen) go('chat');
  return isOpen;
}
