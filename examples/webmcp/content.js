// Runs in a tab after a click on the button: follows the tools of the page, and runs the calls that come for them.
(async () => {
  const { offerPageTools } = await import(chrome.runtime.getURL('webmcp.js'));
  const port = chrome.runtime.connect();
  const tools = new Map();
  const running = new Map();

  port.onMessage.addListener(async ({ kind, call, name, args }) => {
    if (kind === 'cancel') return running.get(call)?.abort();
    const control = new AbortController();
    running.set(call, control);
    try {
      const value = await tools.get(name)(args, { signal: control.signal });
      port.postMessage({ kind: 'answer', call, value });
    } catch (error) {
      port.postMessage({ kind: 'answer', call, error: String(error?.message ?? error) });
    } finally {
      running.delete(call);
    }
  });

  const stop = await offerPageTools({
    registerTool: ({ handler, ...tool }) => {
      tools.set(tool.name, handler);
      port.postMessage({ kind: 'offer', tool });
    },
    unregister: (name) => {
      port.postMessage({ kind: 'remove', name });
      return tools.delete(name);
    },
  }).catch((error) => {
    port.disconnect();
    alert(error.message);
  });
  const alive = setInterval(() => port.postMessage({ kind: 'alive' }), 20_000); // else the browser ends the background
  port.onDisconnect.addListener(() => {
    clearInterval(alive);
    port.postMessage = () => {};
    stop?.();
  });
})();
