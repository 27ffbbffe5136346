import { expect, test } from 'vitest';
import { callTool } from './support/calling.js';
import { Tabs } from './support/tabs.js';

// the person says no to every question for the camera and the microphone
const tabs = new Tabs({ flags: ['--use-fake-ui-for-media-stream=deny'] });

test.each([
  ['camera', 'camera'],
  ['record_audio', 'microphone'],
])('%s answers a no of the person with permission_denied, which is not for ever', async (name, permission) => {
  const page = await tabs.open([permission]);
  const { error } = await callTool(page, name);
  expect(error).toMatchObject({ code: 'permission_denied', reason: 'denied' });
  expect(error?.message).toContain(`did not allow this page to use the ${permission}`);
});

test('a no that the browser keeps is for ever', async () => {
  const page = await tabs.open();
  expect((await callTool(page, 'camera')).error).toMatchObject({ code: 'permission_denied_forever' });
});
