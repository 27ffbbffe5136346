import { permissionState } from './permission.js';
import { SENSOR_PERMISSIONS } from './sensor-permissions.js';

/** What a device is asked before a call (ws.md 5.9), as far as the browser needs to know it. */
export interface BrowserQuestion {
  readonly permission: string;
  readonly tool: string;
  /** The arguments of the call: one reading of `sensors` needs one of its permissions. */
  readonly arguments?: Readonly<Record<string, unknown>>;
}

/** Whether a call with these arguments needs the permission; if not, there is nothing to ask the person. */
export function needsPermission({ permission, tool, arguments: args }: BrowserQuestion): boolean {
  const needed = tool === 'sensors' ? SENSOR_PERMISSIONS[String(args?.type)] : undefined;
  return needed === undefined || needed === permission;
}

/**
 * The browser's decision about a permission: for `onPermission` of a `Device` that offers ready-made tools.
 *
 * It only looks, so that no camera starts twice: where the browser has to ask its person, it does so when the tool runs.
 */
export async function askBrowser(
  question: BrowserQuestion,
): Promise<'allow' | { decision: 'deny_forever'; howToEnable: string }> {
  if (!needsPermission(question) || (await permissionState(question.permission)) !== 'denied') {
    return 'allow';
  }
  return { decision: 'deny_forever', howToEnable: `the browser's site settings for ${location.origin}` };
}
