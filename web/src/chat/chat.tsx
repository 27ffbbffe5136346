import { useSignal } from '@preact/signals';
import { useEffect, useState } from 'preact/hooks';
import type { PageProps } from '../pages.ts';
import { Dialog } from '../parts/dialog.tsx';
import { Empty } from '../parts/empty.tsx';
import { href } from '../router.ts';
import { Conversation } from './conversation.ts';
import { forgetChat, rememberChat } from './last.ts';
import { Sessions } from './sessions.tsx';
import { Talk } from './talk.tsx';
import { newId } from './view.ts';

/** The conversation of this address. A new one keeps its id when its first message gives it an address. */
function useConversation(id: string): Conversation {
  const [chat, setChat] = useState(() => new Conversation(id || newId(), !id));
  const isIt = id ? chat.id === id : chat.isNew && chat.entries.value.length === 0;
  useEffect(() => {
    if (isIt) return;
    chat.close();
    setChat(new Conversation(id || newId(), !id));
  }, [isIt, id, chat]);
  useEffect(() => () => chat.close(), [chat]);
  return chat;
}

/** The chat: the sessions at the left, one of them at the right. */
export function Page({ rest: [id = '', place = ''] }: PageProps) {
  const chat = useConversation(id);
  const isListOpen = useSignal(false);
  const isMissing = chat.isMissing.value;
  useEffect(() => {
    if (isMissing) forgetChat(id);
    else if (id) rememberChat(id); // a new chat has an address with its first message
  }, [id, isMissing]);
  const closeList = () => {
    isListOpen.value = false;
  };
  return (
    <div class="chat">
      <aside class="chat-side" aria-label="Chats">
        <Sessions current={id} />
      </aside>
      {isMissing ? (
        <Empty icon="search" title="There is no such chat" text="It was deleted, or never begun here.">
          <a class="button main" href={href('chat')}>
            Begin a new chat
          </a>
        </Empty>
      ) : (
        <Talk
          key={chat.id}
          chat={chat}
          place={Number.parseInt(place, 10) || 0}
          onList={() => {
            isListOpen.value = true;
          }}
        />
      )}
      <Dialog title="Chats" isOpen={isListOpen.value} onClose={closeList} kind="drawer">
        <Sessions current={id} onChoose={closeList} />
      </Dialog>
    </div>
  );
}
