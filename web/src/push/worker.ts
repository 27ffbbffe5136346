// The service worker: shows notifications, answers questions by their buttons, and says when the gateway is away. It keeps
// nothing but this file: what the page shows comes from the gateway.
export {}; // a module for the compiler, whose own `self` is another kind of worker; nothing of it is left in the file

declare const self: ServiceWorkerGlobalScope;

/** What the gateway sends (`Notice` of wire/rest/push.py). Only a question with buttons has the last four. */
interface Notice {
  kind: 'question' | 'message' | 'test';
  title: string;
  body: string;
  url: string;
  tag: string;
  question?: string;
  subscription?: string;
  allow?: string;
  deny?: string;
}

type Decision = 'allow' | 'deny';

/** The types of TypeScript lack what browsers have: buttons, and a sound for a notification that replaces another one. */
interface ShownOptions extends NotificationOptions {
  actions?: { action: Decision; title: string }[];
  renotify?: boolean;
}

const OFFLINE = `<!doctype html>
<html lang="en">
<meta charset="utf-8">
<meta name="viewport" content="width=device-width">
<meta name="color-scheme" content="light dark">
<title>Handspan</title>
<h1>The gateway can’t be reached</h1>
<p>This device is offline, or the gateway does not run.</p>
<p><a href="">Try again</a></p>
</html>`;

self.addEventListener('install', () => void self.skipWaiting());

/** Only the page itself gets an answer of ours: it is the same for everybody, and needs no token. */
self.addEventListener('fetch', (event) => {
  const isPage = event.request.mode === 'navigate' && pathOf(event.request.url) === pathOf(self.registration.scope);
  if (isPage) event.respondWith(fetch(event.request).catch(offline));
});

function offline(): Response {
  const headers = { 'content-type': 'text/html; charset=utf-8', 'content-security-policy': "default-src 'none'" };
  return new Response(OFFLINE, { status: 503, headers });
}

self.addEventListener('push', (event) => {
  event.waitUntil(show(event.data?.json() as Notice));
});

function show(notice: Notice): Promise<void> {
  const options: ShownOptions = {
    body: notice.body,
    tag: notice.tag,
    data: notice,
    icon: address('page/icon_192.png'),
    renotify: true,
    requireInteraction: notice.kind === 'question',
    ...(notice.allow && {
      actions: [
        { action: 'allow', title: 'Allow once' },
        { action: 'deny', title: 'Deny' },
      ],
    }),
  };
  return self.registration.showNotification(notice.title, options);
}

self.addEventListener('notificationclick', (event) => {
  const notice = event.notification.data as Notice;
  event.notification.close();
  const isAnswer = event.action === 'allow' || event.action === 'deny';
  event.waitUntil(isAnswer ? answer(notice, event.action as Decision) : open(notice));
});

/** Gives the answer with the token of its button. If it does not count, a notification that opens the page says why. */
async function answer(notice: Notice, decision: Decision): Promise<void> {
  const { subscription, question, allow, deny, ...rest } = notice;
  const token = decision === 'allow' ? allow : deny;
  const problem = await fetch(address('push/answer'), {
    method: 'POST',
    credentials: 'omit',
    headers: { 'content-type': 'application/json' },
    body: JSON.stringify({ subscription, question, decision, token }),
  }).then(
    ({ ok }) => (ok ? '' : 'It was answered already, or its time is over.'),
    () => 'The gateway can’t be reached.',
  );
  if (problem) await show({ ...rest, title: 'Your answer did not count', body: `${problem} Open the page to look.` });
}

/** Shows the place in the page: in a window that has it, or in a new one. */
async function open({ url }: Notice): Promise<void> {
  const windows = await self.clients.matchAll({ type: 'window', includeUncontrolled: true });
  const page = windows.find((one) => pathOf(one.url) === pathOf(self.registration.scope));
  if (!page) {
    await self.clients.openWindow(address(url));
    return;
  }
  page.postMessage({ open: url });
  await page.focus();
}

function address(end: string): string {
  return new URL(end, self.registration.scope).href;
}

function pathOf(url: string): string {
  return new URL(url).pathname;
}
