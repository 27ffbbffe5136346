import { useSignal } from '@preact/signals';
import { useEffect, useLayoutEffect, useRef, useState } from 'preact/hooks';
import { status } from '../gateway/account.ts';
import { useLive } from '../gateway/live.ts';
import { rest } from '../gateway/rest.ts';
import type { PageProps } from '../pages.ts';
import { Dialog } from '../parts/dialog.tsx';
import { Icon } from '../parts/icon.tsx';
import { go, href } from '../router.ts';
import { isDetailed, setDetailed } from './call.tsx';
import { Composer } from './composer.tsx';
import { Conversation } from './conversation.ts';
import { draftOf } from './draft.ts';
import { SessionMenu } from './menu.tsx';
import { Messages } from './messages.tsx';
import { Sessions } from './sessions.tsx';
import { newId } from './view.ts';
import { Welcome } from './welcome.tsx';

const NEAR = 80;

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
export function Page({ rest: [id = ''] }: PageProps) {
  const chat = useConversation(id);
  const isListOpen = useSignal(false);
  const closeList = () => {
    isListOpen.value = false;
  };
  return (
    <div class="chat">
      <aside class="chat-side" aria-label="Chats">
        <Sessions current={id} />
      </aside>
      <Talk
        key={chat.id}
        chat={chat}
        onList={() => {
          isListOpen.value = true;
        }}
      />
      <Dialog title="Chats" isOpen={isListOpen.value} onClose={closeList} kind="drawer">
        <Sessions current={id} onChoose={closeList} />
      </Dialog>
    </div>
  );
}

function Talk({ chat, onList }: { chat: Conversation; onList: () => void }) {
  const draft = draftOf(chat.isNew && chat.isEmpty.value ? '' : chat.id);
  const send = (text: string, files: File[] = []) => {
    chat.send(text, files);
    go('chat', [chat.id], { replace: true });
  };
  // A browser would open a file that is dropped, in place of this page.
  const onDrag = (event: DragEvent) => {
    if (!event.dataTransfer?.types.includes('Files')) return;
    event.preventDefault();
    draft.add(event.dataTransfer.files); // none before they are dropped
  };
  return (
    <section class="talk" aria-label="Chat" onDragOver={onDrag} onDrop={onDrag}>
      <TalkHead chat={chat} onList={onList} />
      <Scroller follows={!chat.isEmpty.value}>
        {chat.isEmpty.value ? <Welcome onTry={send} /> : <Messages chat={chat} />}
      </Scroller>
      <div class="talk-foot">
        <Composer draft={draft} isRunning={chat.isRunning.value} onSend={send} onStop={() => chat.stop()} />
        <ModelLine chat={chat} />
      </div>
    </section>
  );
}

/** Follows the text as it grows, unless the person has scrolled up to read. What a new chat shows begins at its top. */
function Scroller({ follows, children }: { follows: boolean; children: preact.ComponentChildren }) {
  const element = useRef<HTMLDivElement>(null);
  const content = useRef<HTMLDivElement>(null);
  const isFollowing = useRef(true);
  const isText = useRef(follows);
  isText.current = follows;
  const last = useRef(0);
  useLayoutEffect(() => {
    const box = element.current;
    if (!box || !content.current) return;
    // Called after the layout of a frame, and only when a size has changed: nothing asks for a layout of its own.
    const sizes = new ResizeObserver(() => {
      if (isText.current && isFollowing.current) box.scrollTop = box.scrollHeight;
    });
    sizes.observe(box);
    sizes.observe(content.current);
    return () => sizes.disconnect();
  }, []);
  const onScroll = () => {
    const box = element.current;
    if (!box) return;
    // Only upwards it is the person who leaves the end: a text that gets another width moves downwards by itself.
    const isNear = box.scrollHeight - box.scrollTop - box.clientHeight < NEAR;
    if (isNear || box.scrollTop < last.current) isFollowing.current = isNear;
    last.current = box.scrollTop;
  };
  return (
    // biome-ignore lint/a11y/noNoninteractiveTabindex: it scrolls, and a keyboard has to reach it
    <div class="talk-scroll" ref={element} onScroll={onScroll} tabIndex={0}>
      <div class="talk-content" ref={content}>
        {children}
      </div>
    </div>
  );
}

function TalkHead({ chat, onList }: { chat: Conversation; onList: () => void }) {
  return (
    <header class="talk-head">
      <button type="button" class="plain list-button" aria-label="Chats" title="Chats" onClick={onList}>
        <Icon name="menu" />
      </button>
      <h1 dir="auto">{chat.record.value?.name || 'New chat'}</h1>
      <span role="status">{chat.link.value === 'waiting' && <span class="badge waits">reconnecting</span>}</span>
      <button
        type="button"
        class="plain worded"
        aria-pressed={isDetailed.value}
        title="Show calls as one line, or with arguments and results"
        onClick={() => setDetailed(!isDetailed.value)}
      >
        <Icon name={isDetailed.value ? 'detailed' : 'compact'} />
        {isDetailed.value ? 'Detailed' : 'Compact'}
      </button>
      {chat.messages.value.length > 0 && <SessionMenu chat={chat} />}
    </header>
  );
}

/** Below the field: which agent and which model answer, and why; and what the session has cost. */
function ModelLine({ chat }: { chat: Conversation }) {
  const { data } = useLive(['agents', 'models'], () => rest.get('/api/agents'));
  const agents = data.value?.agents ?? [];
  const chosen = agents.find(({ name }) => name === (chat.agent.value || data.value?.default));
  const known = status.value;
  const cost = chat.usage.value?.cost.known;
  return (
    <div class="model-line">
      <select
        aria-label="Agent"
        value={chosen?.name ?? ''}
        onChange={(event) => chat.chooseAgent(event.currentTarget.value)}
        title="The agent that answers"
      >
        {agents.map(({ name }) => (
          <option key={name} value={name}>
            {name}
          </option>
        ))}
      </select>
      {(chosen?.model || known) && (
        <a href={href('models')} title={chosen?.model ? `The agent ${chosen.name} names it.` : (known?.why ?? '')}>
          {chosen?.model || known?.model}
        </a>
      )}
      <span class="why">{chosen?.model && `named by ${chosen.name}`}</span>
      {cost !== undefined && cost !== null && <span title="What this chat has cost">${cost.toFixed(4)}</span>}
      {chat.usage.value?.input.known != null && (
        <span title="Tokens in and out">
          {chat.usage.value.input.known} → {chat.usage.value.output.known ?? '?'} tokens
        </span>
      )}
    </div>
  );
}
