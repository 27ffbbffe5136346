import { signal } from '@preact/signals';
import { lastChat } from '../chat/last.ts';
import { account, isAdmin, shortWhy, signOut, status } from '../gateway/account.ts';
import { isLive } from '../gateway/live.ts';
import { PAGES, type PageEntry } from '../pages.ts';
import { Dialog } from '../parts/dialog.tsx';
import { Icon } from '../parts/icon.tsx';
import { openQuestions } from '../questions/open.ts';
import { href, route } from '../router.ts';

const isMenuOpen = signal(false);

function shownPages(): PageEntry[] {
  return PAGES.filter(({ needsAdmin }) => !needsAdmin || isAdmin());
}

/** The chat leads to the one that was open last: the agent may be at work there. */
function chatAddress(): string {
  return lastChat.value ? href('chat', lastChat.value) : href('chat');
}

function addressOf({ id }: PageEntry): string {
  return id === 'chat' ? chatAddress() : href(id);
}

function PageLink({ entry }: { entry: PageEntry }) {
  const isHere = route.value.page === entry.id;
  const waiting = entry.id === 'questions' ? openQuestions.value.length : 0;
  return (
    <a href={addressOf(entry)} class="page-link" aria-current={isHere ? 'page' : undefined} onClick={closeMenu}>
      <Icon name={entry.icon} />
      <span>{entry.title}</span>
      {waiting > 0 && (
        <span class="count" title={`${waiting} open`}>
          {waiting}
        </span>
      )}
    </a>
  );
}

function closeMenu(): void {
  isMenuOpen.value = false;
}

/** The navigation of a wide screen, at the left. */
export function SideNav() {
  return (
    <nav class="side" aria-label="Pages">
      <a class="brand" href={chatAddress()}>
        <Brand />
        Handspan
      </a>
      {shownPages().map((entry) => (
        <PageLink key={entry.id} entry={entry} />
      ))}
      <div class="side-foot">
        <SignedIn />
      </div>
    </nav>
  );
}

/** The navigation of a phone, below: the pages with `isTab`, and the menu with all of them. */
export function TabBar() {
  const isBelowMore = shownPages().some(({ id, isTab }) => !isTab && id === route.value.page);
  return (
    <nav class="tabs" aria-label="Main pages">
      {shownPages()
        .filter(({ isTab }) => isTab)
        .map((entry) => (
          <PageLink key={entry.id} entry={entry} />
        ))}
      <button
        type="button"
        class="page-link"
        aria-haspopup="dialog"
        aria-current={isBelowMore ? 'true' : undefined}
        onClick={() => (isMenuOpen.value = true)}
      >
        <Icon name="menu" />
        <span>More</span>
      </button>
    </nav>
  );
}

export function MenuDrawer() {
  return (
    <Dialog title="All pages" isOpen={isMenuOpen.value} onClose={closeMenu} kind="drawer">
      <nav class="drawer-links" aria-label="All pages">
        {shownPages().map((entry) => (
          <PageLink key={entry.id} entry={entry} />
        ))}
      </nav>
      <SignedIn />
    </Dialog>
  );
}

/** Who is signed in here, and which model answers. It is always in sight. */
function SignedIn() {
  const known = account.value;
  if (!known) return null;
  const model = status.value;
  return (
    <div class="signed-in">
      {model && (
        <a class="which-model" href={href('models')} title={model.why}>
          <Icon name="model" />
          <span>
            {model.model}
            <small>{shortWhy(model)}</small>
          </span>
        </a>
      )}
      <div class="signed-in-line">
        <span
          class={isLive.value ? 'dot on' : 'dot'}
          title={isLive.value ? 'Live updates arrive' : 'No live updates'}
        />
        <span class="grow">
          Signed in as <b>{known.owner}</b>
        </span>
        <button
          type="button"
          class="plain"
          title="Sign this browser out"
          aria-label="Sign out"
          onClick={() => void signOut()}
        >
          <Icon name="leave" />
        </button>
      </div>
    </div>
  );
}

export function Brand() {
  return (
    <svg class="brand-mark" viewBox="0 0 32 32" aria-hidden="true">
      <rect width="32" height="32" rx="9" />
      <path d="M8 22c0-6 3-10 8-10s8 4 8 10M16 12V8M11 14 8 10M21 14l3-4" />
    </svg>
  );
}
