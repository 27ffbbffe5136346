import { useSignal } from '@preact/signals';
import { Icon } from '../parts/icon.tsx';
import { ZoomDialog } from '../parts/zoom.tsx';
import { openQuestions } from '../questions/open.ts';
import { go } from '../router.ts';
import { isDetailed, setDetailed } from './call.tsx';
import { Composer } from './composer.tsx';
import type { Conversation } from './conversation.ts';
import { draftOf } from './draft.ts';
import { ChatFoot } from './foot.tsx';
import { Keys } from './keys.tsx';
import { SessionMenu } from './menu.tsx';
import { Messages } from './messages.tsx';
import { NameField } from './name-field.tsx';
import { Scroller } from './scroller.tsx';
import { Welcome } from './welcome.tsx';

interface TalkProps {
  chat: Conversation;
  /** The number of the message to go to; 0 for the newest. */
  place: number;
  onList: () => void;
}

/** One conversation: what was said, and where the person writes. */
export function Talk({ chat, place, onList }: TalkProps) {
  const draft = draftOf(chat.isNew && chat.isEmpty.value ? '' : chat.id);
  const areKeysShown = useSignal(false);
  const send = (text: string, files: File[] = []) => {
    chat.send(text, files);
    go('chat', [chat.id], { replace: true });
  };
  const showKeys = () => {
    areKeysShown.value = true;
  };
  // A browser would open a file that is dropped, in place of this page.
  const onDrag = (event: DragEvent) => {
    if (!event.dataTransfer?.types.includes('Files')) return;
    event.preventDefault();
    draft.add(event.dataTransfer.files); // none before they are dropped
  };
  const waits = openQuestions.value.some(({ session }) => session === chat.id);
  return (
    <section class="talk" aria-label="Chat" onDragOver={onDrag} onDrop={onDrag}>
      <TalkHead chat={chat} onList={onList} />
      <Scroller follows={!chat.isEmpty.value} sent={chat.sent.value} waiting={waits ? 'A question waits' : ''}>
        {chat.isEmpty.value ? <Welcome onTry={send} /> : <Messages chat={chat} place={place} />}
      </Scroller>
      <div class="talk-foot">
        <Composer chat={chat} draft={draft} onSend={send} onKeys={showKeys} />
        <ChatFoot chat={chat} onKeys={showKeys} />
      </div>
      <Keys isOpen={areKeysShown} />
      <ZoomDialog />
    </section>
  );
}

function TalkHead({ chat, onList }: { chat: Conversation; onList: () => void }) {
  const isNaming = useSignal(false);
  const record = chat.record.value;
  const name = record?.name ?? '';
  return (
    <header class="talk-head">
      <button type="button" class="plain list-button" aria-label="Chats" title="Chats" onClick={onList}>
        <Icon name="menu" />
      </button>
      {isNaming.value ? (
        <NameField
          id={chat.id}
          name={name}
          onDone={() => {
            isNaming.value = false;
          }}
        />
      ) : (
        <h1 dir="auto">{name || 'New chat'}</h1>
      )}
      <span role="status">{chat.link.value === 'waiting' && <span class="badge waits">reconnecting</span>}</span>
      <button
        type="button"
        class="plain worded"
        aria-pressed={isDetailed.value}
        title="Show calls as one line, or with arguments and results"
        onClick={() => setDetailed(!isDetailed.value)}
      >
        <Icon name={isDetailed.value ? 'detailed' : 'compact'} />
        <span>{isDetailed.value ? 'Detailed' : 'Compact'}</span>
      </button>
      {record && chat.messages.value.length > 0 && (
        <SessionMenu
          chat={chat}
          session={record}
          onRename={() => {
            isNaming.value = true;
          }}
        />
      )}
    </header>
  );
}
