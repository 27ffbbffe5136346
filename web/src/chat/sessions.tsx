import { useSignal } from '@preact/signals';
import type { FoundSession, SessionList, SessionView } from 'handspan/rest';
import { useEffect } from 'preact/hooks';
import { onUpdate, useLive } from '../gateway/live.ts';
import { rest } from '../gateway/rest.ts';
import { Problem } from '../parts/empty.tsx';
import { Icon } from '../parts/icon.tsx';
import { Search } from '../parts/list.tsx';
import { href } from '../router.ts';
import { byDay } from './days.ts';
import { FoundRow, SessionRow } from './session-row.tsx';

const PAUSE = 250;
const PAGE = 100;

interface ListProps {
  /** The id of the chat that is open. */
  current: string;
  onChoose?: (() => void) | undefined;
}

/** The chats of the person: pinned ones, then by day; or those with the words that are searched for. */
export function Sessions({ current, onChoose }: ListProps) {
  const query = useSignal('');
  const found = useSearch(query.value.trim());
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
        {found ? (
          <Found found={found} current={current} onChoose={onChoose} />
        ) : (
          <>
            <Chats current={current} onChoose={onChoose} />
            <Others
              title="Runs, short questions and what agents asked each other"
              query={{ kind: 'run,one_shot,child', archived: false }}
              current={current}
              onChoose={onChoose}
            />
            <Others title="Archive" query={{ archived: true }} current={current} onChoose={onChoose} />
          </>
        )}
      </nav>
    </div>
  );
}

/** What was found for these words; undefined without words, and until something was. */
function useSearch(words: string): FoundSession[] | undefined {
  const found = useSignal<FoundSession[] | undefined>(undefined);
  useEffect(() => {
    if (!words) {
      found.value = undefined;
      return;
    }
    let isHere = true;
    const search = async () => {
      const answer = await rest.get('/api/sessions/search', { query: { query: words, left: true } });
      if (isHere) found.value = answer.found;
    };
    const searchSoon = () => setTimeout(() => void search().catch(() => {}), PAUSE);
    let timer = searchSoon();
    const end = onUpdate(({ topic }) => {
      if (topic !== 'sessions') return; // one was archived, named, deleted, or something was said
      clearTimeout(timer);
      timer = searchSoon();
    });
    return () => {
      isHere = false;
      clearTimeout(timer);
      end();
    };
  }, [words, found]);
  return found.value;
}

function Found({ found, current, onChoose }: ListProps & { found: FoundSession[] }) {
  if (found.length === 0) return <p class="muted">Nothing was found.</p>;
  return (
    <ul class="session-list">
      {found.map((one) => (
        <FoundRow key={one.session.session_id} found={one} current={current} onChoose={onChoose} />
      ))}
    </ul>
  );
}

function Chats({ current, onChoose }: ListProps) {
  const own = { kind: 'chat', archived: false };
  const pinned = useLive(['sessions'], () => rest.get('/api/sessions', { query: { ...own, pinned: true } }));
  const size = useSignal(PAGE);
  const others = useLive(
    ['sessions'],
    () => rest.get('/api/sessions', { query: { ...own, pinned: false, limit: size.value } }),
    String(size.value),
  );
  const groups = byDay(begun(others.data.value));
  const kept = begun(pinned.data.value);
  return (
    <>
      <Problem text={others.problem.value} />
      {kept.length > 0 && <Group title="Pinned" sessions={kept} current={current} onChoose={onChoose} />}
      {groups.map(([title, sessions]) => (
        <Group key={title} title={title} sessions={sessions} current={current} onChoose={onChoose} />
      ))}
      {others.data.value?.next && (
        <button
          type="button"
          class="as-link"
          onClick={() => {
            size.value += PAGE;
          }}
        >
          Older chats
        </button>
      )}
    </>
  );
}

function Group({ title, sessions, current, onChoose }: ListProps & { title: string; sessions: SessionView[] }) {
  return (
    <section>
      <h2 class="session-day">{title}</h2>
      <ul class="session-list">
        {sessions.map((session) => (
          <SessionRow key={session.session_id} session={session} current={current} onChoose={onChoose} />
        ))}
      </ul>
    </section>
  );
}

interface OthersProps extends ListProps {
  title: string;
  query: { kind?: string; archived: boolean };
}

/** Sessions that are no chats of a person, or were put away: read when they are wanted. */
function Others({ title, query, current, onChoose }: OthersProps) {
  const isOpen = useSignal(false);
  return (
    <details
      class="session-others"
      onToggle={(event) => {
        isOpen.value = event.currentTarget.open;
      }}
    >
      <summary>{title}</summary>
      {isOpen.value && <OthersList query={query} current={current} onChoose={onChoose} />}
    </details>
  );
}

function OthersList({ query, current, onChoose }: Omit<OthersProps, 'title'>) {
  const { data, problem } = useLive(['sessions'], () =>
    rest.get('/api/sessions', { query: { ...query, limit: PAGE } }),
  );
  const sessions = begun(data.value);
  return (
    <>
      <Problem text={problem.value} />
      {data.value && sessions.length === 0 && <p class="muted">There are none.</p>}
      <ul class="session-list">
        {sessions.map((session) => (
          <SessionRow key={session.session_id} session={session} current={current} onChoose={onChoose} />
        ))}
      </ul>
    </>
  );
}

/** Those in which something was said. */
function begun(list: SessionList | undefined): SessionView[] {
  return (list?.sessions ?? []).filter(({ message_count: count }) => count > 0);
}
