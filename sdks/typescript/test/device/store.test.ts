import { afterEach, expect, test, vi } from 'vitest';
import { localState } from '../../src/device/store.js';

/** What `localStorage` does, for one origin. */
function storage(): Storage {
  const kept = new Map<string, string>();
  return {
    getItem: (key: string) => kept.get(key) ?? null,
    setItem: (key: string, value: string) => void kept.set(key, value),
  } as Storage;
}

afterEach(() => vi.unstubAllGlobals());

test('a second page under the same key has no memory, until the first one is closed', async () => {
  const shared = storage();
  const [first, second, third] = [localState('a', shared), localState('a', shared), localState('a', shared)];
  expect(await first.load()).toBeNull();
  await first.save('kept');
  expect(await second.load()).toBeNull();
  await second.save('of the second');
  first.close?.();
  expect(await third.load()).toBe('kept');
  third.close?.();
});

test('other keys are free', async () => {
  const shared = storage();
  const [first, second] = [localState('b', shared), localState('c', shared)];
  await first.load();
  await first.save('b');
  await second.load();
  await second.save('c');
  expect([shared.getItem('b'), shared.getItem('c')]).toEqual(['b', 'c']);
  first.close?.();
  second.close?.();
});

test('where the browser forbids storage, nothing is kept and nothing fails', async () => {
  vi.stubGlobal('navigator', {});
  const get = () => {
    throw new DOMException('Access is denied for this document.', 'SecurityError');
  };
  const before = Object.getOwnPropertyDescriptor(globalThis, 'localStorage');
  Object.defineProperty(globalThis, 'localStorage', { configurable: true, get });
  try {
    const state = localState('e');
    await state.save('kept');
    expect(await state.load()).toBeFalsy();
  } finally {
    if (before) Object.defineProperty(globalThis, 'localStorage', before);
    else Reflect.deleteProperty(globalThis, 'localStorage');
  }
});

test('where there are no locks it works without', async () => {
  vi.stubGlobal('navigator', {});
  const shared = storage();
  const state = localState('d', shared);
  expect(await state.load()).toBeNull();
  await state.save('kept');
  expect(await localState('d', shared).load()).toBe('kept');
  state.close?.();
});
