import type { BrowserTool } from './tool.js';
import { battery } from './tools/battery.js';
import { camera } from './tools/camera.js';
import { contacts } from './tools/contacts.js';
import { deviceInfo } from './tools/device-info.js';
import { getBrowserLocale } from './tools/get-browser-locale.js';
import { getLocation } from './tools/get-location.js';
import { notify } from './tools/notify.js';
import { pageSelection } from './tools/page-selection.js';
import { pageTitle } from './tools/page-title.js';
import { pickFile } from './tools/pick-file.js';
import { readClipboard } from './tools/read-clipboard.js';
import { readDom } from './tools/read-dom.js';
import { recordAudio } from './tools/record-audio.js';
import { sensors } from './tools/sensors.js';
import { share } from './tools/share.js';
import { storageRead, storageWrite } from './tools/storage.js';
import { vibrate } from './tools/vibrate.js';
import { writeClipboard } from './tools/write-clipboard.js';

const ALL = [
  deviceInfo,
  camera,
  contacts,
  sensors,
  readClipboard,
  writeClipboard,
  getBrowserLocale,
  getLocation,
  recordAudio,
  notify,
  battery,
  share,
  vibrate,
  storageRead,
  storageWrite,
  pickFile,
  pageTitle,
  pageSelection,
  readDom,
] as const;

/** The name of a ready-made tool. */
export type BrowserToolName = (typeof ALL)[number]['name'];

/** These ready-made tools in this order, or, without names, all of them. */
export function browserTools(names?: readonly BrowserToolName[]): BrowserTool<BrowserToolName>[] {
  if (names === undefined) {
    return [...ALL];
  }
  const known = new Map<string, BrowserTool<BrowserToolName>>(ALL.map((tool) => [tool.name, tool]));
  return names.map((name) => {
    const tool = known.get(name);
    if (tool === undefined) {
      throw new RangeError(`There is no browser tool '${name}': name some of ${[...known.keys()].join(', ')}.`);
    }
    return tool;
  });
}
