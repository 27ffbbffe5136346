import { useSignal } from '@preact/signals';
import type { FoundSession, SessionView } from 'handspan/rest';
import { Ago } from '../parts/ago.tsx';
import { Icon } from '../parts/icon.tsx';
import { Menu, MenuItem } from '../parts/menu.tsx';
import { openQuestions } from '../questions/open.ts';
import { href } from '../router.ts';
import { archiveChat, deleteChat, pinChat } from './chats.ts';
import { NameField } from './name-field.tsx';

interface RowProps {
  session: SessionView;
  /** The id of the chat that is open. */
  current: string;
  onChoose?: (() => void) | undefined;
}

/** One chat of the list: its name, what goes on in it, and what can be done with it. */
export function SessionRow({ session, current, onChoose }: RowProps) {
  const isNaming = useSignal(false);
  const { session_id: id, name, pinned, archived } = session;
  if (isNaming.value) {
    return (
      <li class="session-row">
        <NameField
          id={id}
          name={name ?? ''}
          onDone={() => {
            isNaming.value = false;
          }}
        />
      </li>
    );
  }
  return (
    <li class="session-row">
      <a class="session" href={href('chat', id)} aria-current={id === current ? 'page' : undefined} onClick={onChoose}>
        <span dir="auto">{name || 'Untitled'}</span>
        <Mark session={session} />
      </a>
      <Menu label={`More for ${name || 'Untitled'}`}>
        <MenuItem
          icon="edit"
          onClick={() => {
            isNaming.value = true;
          }}
        >
          Rename
        </MenuItem>
        {!archived && (
          <MenuItem icon="pin" onClick={() => void pinChat(session)}>
            {pinned ? 'Unpin' : 'Pin'}
          </MenuItem>
        )}
        <MenuItem icon="archive" onClick={() => void archiveChat(session)}>
          {archived ? 'Take out of the archive' : 'Archive'}
        </MenuItem>
        <MenuItem icon="trash" isDanger onClick={() => void deleteChat(session)}>
          Delete
        </MenuItem>
      </Menu>
    </li>
  );
}

/** What goes on in a chat: a question waits, the agent is at work, or when something was said last. */
function Mark({ session: { session_id: id, state, last_activity: at } }: { session: SessionView }) {
  if (openQuestions.value.some(({ session }) => session === id)) return <small class="mark waits">waits for you</small>;
  if (state === 'running') return <small class="mark busy">at work</small>;
  return (
    <small>
      <Ago at={at} />
    </small>
  );
}

interface FoundProps {
  found: FoundSession;
  current: string;
  onChoose?: (() => void) | undefined;
}

/** A chat with the place where the words are: a click leads there. */
export function FoundRow({ found: { session, seq, marked, branch }, current, onChoose }: FoundProps) {
  const { session_id: id, name } = session;
  const isPlace = seq > 0 && branch === undefined;
  const parts = marked.map(({ text, found }, index) => (found ? <mark key={index}>{text}</mark> : text));
  return (
    <li class="session-row">
      <a
        class="session"
        href={isPlace ? href('chat', id, String(seq)) : href('chat', id)}
        aria-current={id === current ? 'page' : undefined}
        onClick={onChoose}
      >
        <span dir="auto">
          {session.archived && <Icon name="archive" />} {seq === 0 && parts.length > 0 ? parts : name || 'Untitled'}
        </span>
        {seq > 0 && <small dir="auto">{parts}</small>}
        {branch !== undefined && <small class="mark">in a version that was left</small>}
      </a>
    </li>
  );
}
