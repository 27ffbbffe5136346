const form = document.querySelector('form');

chrome.storage.local.get('gateway').then(({ gateway }) => {
  if (gateway) form.gateway.value = gateway;
});

form.addEventListener('submit', async (event) => {
  event.preventDefault();
  await chrome.storage.local.set({ gateway: form.gateway.value, token: form.token.value.trim() });
  form.token.value = '';
  form.querySelector('output').textContent = `Saved. The gateway has to know ${location.origin}.`;
});
