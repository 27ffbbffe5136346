import { useSignal } from '@preact/signals';
import type { FoundSession, SessionView } from 'handspan/rest';
import { useEffect } from 'preact/hooks';
import { useLive } from '../gateway/live.ts';
import { rest } from '../gateway/rest.ts';
import { Ago } from '../parts/ago.tsx';
import { Icon } from '../parts/icon.tsx';
import { Search } from '../parts/list.tsx';
import { href } from '../router.ts';

const PAUSE = 250;

/** The sessions of the person, the last active first; or those with the words that are searched for. */
export function Sessions({ current, onChoose }: { current: string; onChoose?: () => void }) {
  const { data } = useLive(['sessions'], () => rest.get('/api/sessions', { query: { limit: 200 } }));
  const query = useSignal('');
  const found = useSignal<FoundSession[] | undefined>(undefined);
  useEffect(() => {
    const words = query.value.trim();
    if (!words) {
      found.value = undefined;
      return;
    }
    const search = async () => {
      const answer = await rest.get('/api/sessions/search', { query: { query: words } });
      if (query.value.trim() === words) found.value = answer.found;
    };
    const timer = setTimeout(() => void search().catch(() => {}), PAUSE);
    return () => clearTimeout(timer);
  }, [query.value, found, query]);
  const listed = (data.value?.sessions ?? []).filter(({ message_count: count }) => count > 0);
  return (
    <div class="sessions">
      <a class="button" href={href('chat')} onClick={onChoose}>
        <Icon name="plus" />
        New chat
      </a>
      <Search
        label="Search in all chats"
        value={query.value}
        onInput={(text) => {
          query.value = text;
        }}
      />
      <nav aria-label="Chats">
        {found.value
          ? found.value.map(({ session, excerpt }) => (
              <SessionLink
                key={session.session_id}
                session={session}
                current={current}
                text={excerpt}
                onChoose={onChoose}
              />
            ))
          : listed.map((session) => (
              <SessionLink key={session.session_id} session={session} current={current} onChoose={onChoose} />
            ))}
        {found.value?.length === 0 && <p class="muted">Nothing was found.</p>}
      </nav>
    </div>
  );
}

interface SessionLinkProps {
  session: SessionView;
  current: string;
  text?: string;
  onChoose?: (() => void) | undefined;
}

function SessionLink({ session, current, text, onChoose }: SessionLinkProps) {
  const { session_id: id, name, last_activity: at, state } = session;
  return (
    <a class="session" href={href('chat', id)} aria-current={id === current ? 'page' : undefined} onClick={onChoose}>
      <span dir="auto">{name || 'Untitled'}</span>
      <small>{text || (state === 'running' ? 'at work' : <Ago at={at} />)}</small>
    </a>
  );
}
