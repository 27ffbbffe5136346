import { describe, expect, test } from 'vitest';
import { callTool, evaluate, until } from './support/calling.js';
import { Tabs } from './support/tabs.js';

const tabs = new Tabs();

describe('camera', () => {
  test('gives a JPEG and lets the camera go', async () => {
    const page = await tabs.open(['camera']);
    const { file } = await callTool(page, 'camera');
    expect(file).toMatchObject({ name: 'photo.jpg', type: 'image/jpeg', head: [0xff, 0xd8, 0xff, 0xe0] });
    expect(file?.size).toBeGreaterThan(1000);
    expect(await evaluate(page, 'opened.map((track) => track.readyState)')).toEqual(['ended']);
  });

  test('takes a larger photo when it is asked to', async () => {
    const page = await tabs.open(['camera']);
    const low = await callTool(page, 'camera', { quality: 'low' });
    const high = await callTool(page, 'camera', { quality: 'high' });
    expect(high.file?.size).toBeGreaterThan(low.file?.size ?? Number.POSITIVE_INFINITY);
  });

  test('lets the camera go when the call is cancelled in the middle', async () => {
    const page = await tabs.open(['camera']);
    const { error } = await callTool(page, 'camera', {}, { abortAfter: 0 });
    expect(error).toMatchObject({ code: 'cancelled', reason: 'aborted' });
    await until(page, "opened.length === 1 && opened[0].readyState === 'ended'");
  });

  test('that can’t be opened says why', async () => {
    const page = await tabs.open(['camera']);
    for (const [name, code, message] of [
      ['NotFoundError', 'execution_failed', 'This device has no camera that the browser can use.'],
      ['NotReadableError', 'busy', expect.stringContaining('another program uses it: in use')],
    ]) {
      const script = `navigator.mediaDevices.getUserMedia = async () => { throw new DOMException('in use', '${name}') }`;
      await evaluate(page, `${script}; undefined`);
      expect((await callTool(page, 'camera')).error, name).toMatchObject({ code, message });
    }
    await evaluate(page, "Object.defineProperty(navigator, 'mediaDevices', { value: undefined }); undefined");
    expect((await callTool(page, 'camera')).error).toMatchObject({ code: 'execution_failed', reason: 'unsupported' });
  });
});

describe('record_audio', () => {
  test('gives a sound file and lets the microphone go', async () => {
    const page = await tabs.open(['microphone']);
    const { file } = await callTool(page, 'record_audio', { seconds: 0.5 });
    expect(file).toMatchObject({ name: 'recording.webm', type: 'audio/webm', head: [0x1a, 0x45, 0xdf, 0xa3] });
    expect(await evaluate(page, 'opened.map((track) => track.readyState)')).toEqual(['ended']);
  });

  test('does not go on recording when the call is cancelled', async () => {
    const page = await tabs.open(['microphone']);
    const { error } = await callTool(page, 'record_audio', { seconds: 60 }, { abortAfter: 300 });
    expect(error?.code).toBe('cancelled');
    await until(page, "opened[0]?.readyState === 'ended'");
  });

  test('refuses times that are too short, too long or none', async () => {
    const page = await tabs.open(['microphone']);
    for (const seconds of [0, 61, 'long']) {
      expect((await callTool(page, 'record_audio', { seconds })).error?.code, `${seconds}`).toBe('invalid_arguments');
    }
    expect(await evaluate(page, 'opened.length')).toBe(0);
  });

  test('is unsupported where the browser has no recorder', async () => {
    const page = await tabs.open(['microphone']);
    await evaluate(page, 'delete globalThis.MediaRecorder');
    expect((await callTool(page, 'record_audio')).error?.reason).toBe('unsupported');
    expect(await evaluate(page, 'opened.length')).toBe(0);
  });
});
