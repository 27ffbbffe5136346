import { effect, useSignal } from '@preact/signals';
import type { ComponentType } from 'preact';
import { useEffect } from 'preact/hooks';
import { account, readAccount, unreachable } from '../gateway/account.ts';
import { followUpdates, onUpdate } from '../gateway/live.ts';
import { messageOf } from '../gateway/rest.ts';
import { PAGES, type PageProps } from '../pages.ts';
import { ConfirmDialog } from '../parts/confirm.tsx';
import { openDialogs } from '../parts/dialog.tsx';
import { Empty } from '../parts/empty.tsx';
import { Toasts, toast } from '../parts/toast.tsx';
import { QuestionDialog } from '../questions/dialog.tsx';
import { route } from '../router.ts';
import { focusMain, keepFocus } from './focus.ts';
import { MenuDrawer, SideNav, TabBar } from './nav.tsx';
import { SignIn } from './sign-in.tsx';

keepFocus();

let isFollowing = false;
effect(() => {
  if (!account.value || isFollowing) return;
  isFollowing = true;
  followUpdates(() => void readAccount()); // signed out in another tab, or the token was revoked
});

// A message that an agent sends to the person by a channel of the type `page`.
onUpdate(({ topic, data }) => {
  if (topic === 'messages') toast(String(data.content), { stays: true });
});

/** The whole page: navigation, the page that the address names, and what lies over it. */
export function App() {
  if (account.value === null) return <SignIn />;
  if (account.value === undefined) {
    return unreachable.value ? <Unreachable /> : <div class="loading" role="status" aria-label="Loading" />;
  }
  return (
    <div class="shell">
      <button type="button" class="skip" onClick={focusMain}>
        Skip to content
      </button>
      <SideNav />
      <main id="main" tabIndex={-1} aria-label={titleOf(route.value.page)}>
        <CurrentPage />
      </main>
      <TabBar />
      <MenuDrawer />
      <QuestionDialog />
      <ConfirmDialog />
      {openDialogs.value.length === 0 && <Toasts />}
    </div>
  );
}

function titleOf(page: string): string {
  return PAGES.find(({ id }) => id === page)?.title ?? 'No such page';
}

function CurrentPage() {
  const { page, rest } = route.value;
  const entry = PAGES.find(({ id }) => id === page);
  const loaded = useSignal<{ id: string; Page?: ComponentType<PageProps>; problem?: string }>({ id: '' });
  useEffect(() => {
    if (!entry) return;
    document.title = `${entry.title} · Handspan`;
    if (loaded.value.id) focusMain(); // a screen reader says the name of the page
    let isHere = true; // a page that comes after the person has left for another one is not shown
    entry.load().then(
      ({ Page }) => {
        if (isHere) loaded.value = { id: entry.id, Page };
      },
      (error: unknown) => {
        if (isHere) loaded.value = { id: entry.id, problem: messageOf(error) };
      },
    );
    return () => {
      isHere = false;
    };
  }, [entry, loaded]);
  if (!entry) {
    return <Empty icon="search" title="There is no such page" text="Choose one in the navigation." />;
  }
  const { id, Page, problem } = loaded.value;
  if (id !== entry.id) return <div class="loading" role="status" aria-label="Loading" />;
  if (problem || !Page) {
    return <Empty icon="alert" title="This page could not be loaded" text={`${problem}. Load it again.`} />;
  }
  return <Page rest={rest} />;
}

function Unreachable() {
  return (
    <Empty
      icon="alert"
      title="The gateway does not answer"
      text={`${unreachable.value} It is tried again when you reload.`}
    />
  );
}
