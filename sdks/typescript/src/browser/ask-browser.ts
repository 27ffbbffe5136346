import { permissionState } from './permission.js';

/** What a device is asked before a call (ws.md 5.9), as far as the browser needs to know it. */
export interface BrowserQuestion {
  readonly permission: string;
  readonly tool: string;
}

/**
 * The browser's decision about a permission: for `onPermission` of a `Device` that offers ready-made tools.
 *
 * It only looks, so that no camera starts twice: where the browser has to ask its person, it does so when the tool runs.
 */
export async function askBrowser({
  permission,
  tool,
}: BrowserQuestion): Promise<'allow' | { decision: 'deny_forever'; howToEnable: string }> {
  // one reading of `sensors` needs one of its permissions, and only the tool knows which
  if (tool === 'sensors' || (await permissionState(permission)) !== 'denied') {
    return 'allow';
  }
  return { decision: 'deny_forever', howToEnable: `the browser's site settings for ${location.origin}` };
}
