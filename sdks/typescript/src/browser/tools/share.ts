import { BrowserToolError } from '../browser-tool-error.js';
import { gestureMissing, needGesture, needSecureContext, unsupportedError } from '../support.js';
import { type BrowserTool, PERSON_SECONDS } from '../tool.js';
import { nameOf, untilAborted } from '../waiting.js';

interface ShareArguments {
  readonly title?: string;
  readonly text?: string;
  readonly url?: string;
}

const WHAT = "The device's share sheet";

/** Hands a text or an address to another app that the person chooses. */
export const share: BrowserTool<'share'> = {
  name: 'share',
  description: "Open the device's share sheet with a text or an address; the person chooses the app that gets it.",
  parameters: {
    type: 'object',
    properties: {
      title: { type: 'string', description: 'A title, for the apps that use one', maxLength: 200 },
      text: { type: 'string', description: 'The text to share', maxLength: 10_000 },
      url: { type: 'string', description: 'The http or https address to share', maxLength: 2000 },
    },
    required: [],
    additionalProperties: false,
  },
  timeout: PERSON_SECONDS,
  annotations: { read_only: false, destructive: false, open_world: true },
  handler: async ({ title, text, url }: ShareArguments, context) => {
    needSecureContext(WHAT);
    const data: ShareData = { ...(title && { title }), ...(text && { text }), ...(url && { url: webAddress(url) }) };
    if (Object.keys(data).length === 0) {
      throw new BrowserToolError('invalid', 'There is nothing to share: give a text or a url.');
    }
    if (typeof navigator.share !== 'function') {
      throw unsupportedError(WHAT, 'Show the person what to share, so that they can copy it.');
    }
    needGesture(WHAT);
    await open(data, context?.signal);
    return { shared: true };
  },
};

/** The address, if it is one of the web: the errors of browsers for other addresses are hard to understand. */
function webAddress(url: string): string {
  if (!/^https?:\/\/[^\s/]/i.test(url)) {
    throw new BrowserToolError('invalid', `'${url}' can't be shared: give a whole address that begins with https://.`);
  }
  return url;
}

async function open(data: ShareData, signal: AbortSignal | undefined): Promise<void> {
  try {
    await untilAborted(navigator.share(data), signal);
  } catch (error) {
    switch (nameOf(error)) {
      case 'AbortError':
        throw new BrowserToolError('dismissed', 'The person closed the share sheet without choosing an app.');
      case 'NotAllowedError':
        throw gestureMissing(WHAT, error);
      case 'InvalidStateError':
        throw new BrowserToolError('not_ready', 'The share sheet is open already: wait for the person.');
      default:
        throw error;
    }
  }
}
