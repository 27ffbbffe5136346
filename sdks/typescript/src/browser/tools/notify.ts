import { BrowserToolError } from '../browser-tool-error.js';
import { blockedError, deniedError, permissionState } from '../permission.js';
import { gestureMissing, hasGesture, needSecureContext, unsupportedError } from '../support.js';
import { type BrowserTool, PERSON_SECONDS } from '../tool.js';
import { nameOf, textOf, untilAborted } from '../waiting.js';

interface NotifyArguments {
  readonly title: string;
  readonly body?: string;
  readonly tag?: string;
}

const WHAT = 'notifications';

/** Shows a notification of the operating system. */
export const notify: BrowserTool<'notify'> = {
  name: 'notify',
  description: "Show a notification on the person's device, also while the page is in the background.",
  parameters: {
    type: 'object',
    properties: {
      title: { type: 'string', description: 'The first line', minLength: 1, maxLength: 200 },
      body: { type: 'string', description: 'The text below it', maxLength: 1000 },
      tag: { type: 'string', description: 'A notification with the same tag is replaced', maxLength: 64 },
    },
    required: ['title'],
    additionalProperties: false,
  },
  permissions: ['notifications'],
  timeout: PERSON_SECONDS,
  annotations: { read_only: false, destructive: false },
  handler: async ({ title, ...options }: NotifyArguments, context) => {
    needSecureContext('The notification');
    if (typeof Notification === 'undefined') {
      throw unsupportedError('The notification', 'Say it in the conversation.');
    }
    await requirePermission(context?.signal);
    await show(title, options);
    return { shown: true };
  },
};

async function requirePermission(signal: AbortSignal | undefined): Promise<void> {
  if (Notification.permission === 'granted') {
    return;
  }
  if (Notification.permission === 'denied' && (await permissionState(WHAT)) !== 'prompt') {
    throw blockedError(WHAT);
  }
  const hadGesture = hasGesture();
  const answer = await untilAborted(Notification.requestPermission(), signal);
  if (answer === 'granted') {
    return;
  }
  // several browsers do not even show the question without a click, and say `default`
  throw answer === 'default' && !hadGesture
    ? gestureMissing('The question for notifications')
    : await deniedError(WHAT, WHAT);
}

/** Through the page's service worker where it has one: on phones there is no other way. */
async function show(title: string, options: NotificationOptions): Promise<void> {
  try {
    const worker = await navigator.serviceWorker?.getRegistration();
    if (worker?.active) {
      await worker.showNotification(title, options);
    } else {
      new Notification(title, options);
    }
  } catch (error) {
    if (nameOf(error) === 'TypeError') {
      throw unsupportedError(
        'A notification without a service worker',
        'Say it in the conversation; the page needs a service worker for this.',
      );
    }
    throw new BrowserToolError('failed', `The notification could not be shown: ${textOf(error)}.`, { cause: error });
  }
}
