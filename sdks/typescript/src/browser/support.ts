import { BrowserToolError } from './browser-tool-error.js';

/** Throws where there is no page: in Node, in a worker. */
export function needPage(what: string): void {
  if (typeof document === 'undefined' || typeof window === 'undefined') {
    throw new BrowserToolError('unsupported', `${what} is unsupported here: it needs a page in a browser.`);
  }
}

/** Throws where the page came over plain HTTP: browsers keep what is private from such pages. */
export function needSecureContext(what: string): void {
  needPage(what);
  if (!globalThis.isSecureContext) {
    throw new BrowserToolError(
      'insecure_context',
      `${what} is not there in an insecure context: the page at ${location.origin} came over plain HTTP. ` +
        'Ask the person to open it over HTTPS, or at http://localhost on the machine itself.',
    );
  }
}

/** Throws where the browser opens its window only right after a click, and there was none. */
export function needGesture(what: string): void {
  needPage(what);
  if (!hasGesture()) {
    throw gestureMissing(what);
  }
}

/** Whether the person has just clicked or pressed a key; true where the browser does not tell. */
export function hasGesture(): boolean {
  return navigator.userActivation?.isActive ?? true;
}

/** The error for a click that is missing. */
export function gestureMissing(what: string, cause?: unknown): BrowserToolError {
  return new BrowserToolError(
    'gesture_missing',
    `${what} opens only right after a click or a key press in the page, and there was none in the last seconds. ` +
      'Tell the person what you need, ask them to click into the page, and call this tool again at once.',
    { cause },
  );
}

/** The error for a browser that does not have it. */
export function unsupportedError(what: string, instead: string): BrowserToolError {
  return new BrowserToolError('unsupported', `${what} is unsupported in this browser. ${instead}`);
}
