import { onUpdate } from '../gateway/live.ts';
import { rest } from '../gateway/rest.ts';

const worker = navigator.serviceWorker as ServiceWorkerContainer | undefined; // none without HTTPS

/** Lets the browser install the page, and say when the gateway is away. */
export function startWorker(): void {
  if (!worker) return;
  void worker.register('./worker.js').catch(() => undefined); // a private window may forbid it
  worker.addEventListener('message', ({ data }) => {
    const { open } = data as { open?: unknown };
    if (typeof open === 'string' && open.startsWith('#/')) location.hash = open;
  });
  // A question that has ended needs no notification any more.
  onUpdate(({ topic, data }) => {
    if (topic === 'questions' && data.open === false) void closeNotifications(String(data.id));
  });
}

async function closeNotifications(tag: string): Promise<void> {
  const registration = await worker?.getRegistration();
  for (const shown of (await registration?.getNotifications({ tag })) ?? []) shown.close();
}

/** Why this browser can't be notified; empty when it can. */
export function whyNoPush(): string {
  if (!isSecureContext) return 'Browsers notify only for pages over HTTPS: start the gateway with --lan --tls.';
  if (/iPhone|iPad/.test(navigator.userAgent) && !('PushManager' in globalThis)) {
    return 'On an iPhone or iPad, add this page to the Home Screen (Share → Add to Home Screen), and open it there.';
  }
  if (!worker || !('PushManager' in globalThis)) return 'This browser has no notifications by Web Push.';
  if (Notification.permission === 'denied') {
    return 'This browser blocks notifications of this page: allow them in its settings, then load the page again.';
  }
  return '';
}

/** Asks the person, subscribes this browser at its push service, and lets the gateway know. */
export async function subscribe(publicKey: string): Promise<void> {
  if ((await Notification.requestPermission()) !== 'granted')
    throw new Error('This browser was not allowed to notify.');
  if (!worker) return;
  await worker.register('./worker.js'); // fails where `ready` would never come
  const { pushManager } = await worker.ready;
  await (await pushManager.getSubscription())?.unsubscribe(); // it may be bound to another key
  const made = await pushManager.subscribe({ userVisibleOnly: true, applicationServerKey: publicKey });
  const { p256dh = '', auth = '' } = made.toJSON().keys ?? {};
  await rest.post('/api/push', { body: { endpoint: made.endpoint, keys: { p256dh, auth }, label: guessLabel() } });
}

/** Ends the subscription of this browser at its push service. */
export async function unsubscribe(): Promise<void> {
  const registration = await worker?.getRegistration();
  await (await registration?.pushManager.getSubscription())?.unsubscribe();
}

function guessLabel(): string {
  const agent = navigator.userAgent;
  const system = /Android|iPhone|iPad|Windows|Mac|Linux/.exec(agent)?.[0] ?? '';
  const browser = /Firefox|Edg|Chrome|Safari/.exec(agent)?.[0].replace('Edg', 'Edge') ?? 'Browser';
  return system ? `${browser} on ${system}` : browser;
}
