let lock: WakeLockSentinel | undefined;
let isWanted = false;

/** Keep the screen on while this phone is connected: a browser lets a page sleep with the screen. */
export function stayAwake(wanted: boolean): void {
  isWanted = wanted;
  void update();
}

async function update(): Promise<void> {
  if (isWanted && document.visibilityState === 'visible' && (!lock || lock.released)) {
    lock = await navigator.wakeLock?.request('screen').catch(() => undefined); // a low battery refuses it
  }
  if (!isWanted) {
    await lock?.release().catch(() => undefined);
    lock = undefined;
  }
}

// The browser takes the lock away from a page that is hidden.
document.addEventListener('visibilitychange', () => void update());
