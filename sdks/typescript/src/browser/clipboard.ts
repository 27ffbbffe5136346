import { BrowserToolError } from './browser-tool-error.js';
import { deniedError, needNotBlocked } from './permission.js';
import { needSecureContext, unsupportedError } from './support.js';
import { nameOf, untilAborted } from './waiting.js';

/** What `use` does with the clipboard; the browser asks the person when it has to. */
export async function clipboardFor<Value>(
  permission: 'clipboard-read' | 'clipboard-write',
  use: (clipboard: Clipboard) => Promise<Value>,
  signal: AbortSignal | undefined,
): Promise<Value> {
  needSecureContext('The clipboard');
  const clipboard = navigator.clipboard;
  const verb = permission === 'clipboard-read' ? 'readText' : 'writeText';
  if (typeof clipboard?.[verb] !== 'function') {
    throw unsupportedError('The clipboard', 'Ask the person to copy or paste the text in the page.');
  }
  await needNotBlocked(permission, 'the clipboard');
  try {
    return await untilAborted(use(clipboard), signal);
  } catch (error) {
    throw nameOf(error) === 'NotAllowedError' ? await refusalError(permission, error) : error;
  }
}

/** Browsers give the same error for a page in the background and for a person's no. */
async function refusalError(permission: string, error: unknown): Promise<BrowserToolError> {
  if (document.hasFocus()) {
    return deniedError(permission, 'the clipboard', error);
  }
  return new BrowserToolError(
    'not_focused',
    'The browser lets a page use the clipboard only while it is in front. Ask the person to click into the page, and ' +
      'call this tool again.',
    { cause: error },
  );
}
