/**
 * Tools that every page can offer, ready-made: one file a tool in `tools/`.
 *
 * Nothing here touches the browser before a tool is called, so the entry loads anywhere. To add a tool: a file in
 * `tools/`, its line in `all.ts` and here.
 */
export { type AskForGesture, afterGesture } from './after-gesture.js';
export { type BrowserToolName, browserTools } from './all.js';
export { askBrowser, type BrowserQuestion, needsPermission } from './ask-browser.js';
export { type BrowserCode, type BrowserReason, BrowserToolError } from './browser-tool-error.js';
export type { BrowserTool, CallContext, ObjectSchema } from './tool.js';
export { battery } from './tools/battery.js';
export { camera } from './tools/camera.js';
export { contacts } from './tools/contacts.js';
export { deviceInfo } from './tools/device-info.js';
export { getBrowserLocale } from './tools/get-browser-locale.js';
export { getLocation } from './tools/get-location.js';
export { notify } from './tools/notify.js';
export { pageSelection } from './tools/page-selection.js';
export { pageTitle } from './tools/page-title.js';
export { pickFile } from './tools/pick-file.js';
export { readClipboard } from './tools/read-clipboard.js';
export { readDom } from './tools/read-dom.js';
export { recordAudio } from './tools/record-audio.js';
export { sensors } from './tools/sensors.js';
export { share } from './tools/share.js';
export { storageRead, storageTools, storageWrite } from './tools/storage.js';
export { vibrate } from './tools/vibrate.js';
export { writeClipboard } from './tools/write-clipboard.js';
