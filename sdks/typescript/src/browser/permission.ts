import { BrowserToolError } from './browser-tool-error.js';

/** The state of a permission for this page; undefined where the browser does not tell it. */
export async function permissionState(permission: string): Promise<PermissionState | undefined> {
  try {
    return (await navigator.permissions.query({ name: permission as PermissionName })).state;
  } catch {
    return undefined; // no Permissions API, or one that does not know this name
  }
}

/** Throws when the person, or the page around this one, has blocked it: the browser would not even ask. */
export async function needNotBlocked(permission: string, what: string): Promise<void> {
  if ((await permissionState(permission)) === 'denied') {
    throw blockedError(what);
  }
}

/** The error for a person's no: for now, or for ever where the browser remembers it. */
export async function deniedError(permission: string, what: string, cause?: unknown): Promise<BrowserToolError> {
  if ((await permissionState(permission)) === 'denied') {
    return blockedError(what, cause);
  }
  return new BrowserToolError(
    'denied',
    `The person did not allow this page to use ${what}. Go on without it, or say what it is needed for and ask again.` +
      hintForFrames(),
    { cause },
  );
}

/** The error for a no that stands. */
export function blockedError(what: string, cause?: unknown): BrowserToolError {
  return new BrowserToolError(
    'denied_forever',
    `This page is blocked from using ${what}, and the browser does not ask any more. Do not try again: the person can ` +
      `allow it in the browser's site settings for ${location.origin} (the icon beside the address), then reload.` +
      hintForFrames(),
    { cause },
  );
}

function hintForFrames(): string {
  return window.top === window
    ? ''
    : ' This page is a frame of another one, which may have to pass the permission on (`allow` of its iframe).';
}
