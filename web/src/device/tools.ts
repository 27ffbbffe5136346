import { type BrowserTool, browserTools } from 'handspan/browser';

/** The tools that a phone offers. Those that read the page itself are left out: this page has nothing to read. */
export const TOOLS: BrowserTool[] = browserTools([
  'camera',
  'get_location',
  'sensors',
  'record_audio',
  'notify',
  'vibrate',
  'share',
  'read_clipboard',
  'write_clipboard',
  'pick_file',
  'contacts',
  'battery',
  'device_info',
]);

/** What browsers keep from pages that came over plain HTTP. */
const NEEDS_HTTPS = new Set([
  'camera',
  'get_location',
  'sensors',
  'record_audio',
  'notify',
  'share',
  'read_clipboard',
  'write_clipboard',
  'contacts',
  'battery',
]);

const PARTS: Record<string, () => unknown> = {
  camera: () => navigator.mediaDevices,
  get_location: () => navigator.geolocation,
  record_audio: () => navigator.mediaDevices,
  notify: () => globalThis.Notification,
  vibrate: () => navigator.vibrate,
  share: () => navigator.share,
  contacts: () => (navigator as { contacts?: unknown }).contacts,
  battery: () => (navigator as { getBattery?: unknown }).getBattery,
};

/** Why this browser can't run the tool; empty when it can. */
export function whyNot(name: string): string {
  if (NEEDS_HTTPS.has(name) && !isSecureContext) return 'needs HTTPS';
  return (PARTS[name]?.() ?? true) ? '' : 'not in this browser';
}
