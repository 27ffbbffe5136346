// One device for each tab whose tools are offered. The token stays here: no page and no content script sees it.
import { Device } from './device.js';

/** How the tools of a tab are taken back, by its id. */
const offered = new Map();

chrome.action.onClicked.addListener(async ({ id }) => {
  if (offered.has(id)) return offered.get(id)();
  const { token } = await chrome.storage.local.get('token');
  if (!token) return chrome.runtime.openOptionsPage();
  await chrome.scripting.executeScript({ target: { tabId: id }, files: ['content.js'] });
});

chrome.runtime.onConnect.addListener(async (port) => {
  const { id, url } = port.sender.tab;
  const calls = new Map();
  const post = (message) => offered.get(id) === takeBack && port.postMessage(message);
  const early = [];
  let device;
  const take = (message) => {
    if (message.kind === 'offer') {
      const handler = (args, { signal }) => run(post, calls, { name: message.tool.name, args }, signal);
      device.registerTool({ ...message.tool, handler });
    } else if (message.kind === 'remove') device.unregister(message.name);
    else if (message.kind === 'answer') calls.get(message.call)?.(message);
  };
  port.onMessage.addListener((message) => (device ? take(message) : early.push(message)));
  const takeBack = () => {
    offered.delete(id);
    for (const end of calls.values()) end({ error: 'The tools of this page were taken back.' });
    port.disconnect();
    device?.close();
    show(id, 'closed', '');
  };
  port.onDisconnect.addListener(takeBack); // the tab was closed, or shows another page
  offered.set(id, takeBack);
  const { gateway, token } = await chrome.storage.local.get(['gateway', 'token']);
  const label = new URL(url).hostname.replaceAll(/[^a-z0-9]+/gi, '_');
  device = new Device({ url: gateway, token, label, onState: ({ status, reason }) => show(id, status, reason) });
  early.splice(0).forEach(take);
  if (offered.get(id) === takeBack) await device.run();
});

/** Lets the page run one call; its answer. */
function run(post, calls, { name, args }, signal) {
  const call = crypto.randomUUID();
  return new Promise((resolve, reject) => {
    calls.set(call, ({ value, error }) => (error === undefined ? resolve(value) : reject(new Error(error))));
    signal.addEventListener('abort', () => {
      post({ kind: 'cancel', call });
      reject(signal.reason);
    });
    post({ kind: 'call', call, name, args });
  }).finally(() => calls.delete(call));
}

/** Shows the state on the button of the tab. */
function show(tabId, status, reason) {
  const text = { online: 'on', connecting: '…', waiting: '…' }[status] ?? '';
  chrome.action.setBadgeText({ tabId, text }).catch(() => {}); // the tab is gone
  chrome.action.setTitle({ tabId, title: reason || 'Offer the tools of this page, or take them back' }).catch(() => {});
}
