import { accessSync, constants } from 'node:fs';
import { delimiter, join } from 'node:path';
import { type Browser, chromium } from 'playwright-core';

/** A host that is no localhost, so that pages from there are in an insecure context; it leads to this machine. */
export const INSECURE_HOST = 'insecure.test';

const FAKE_DEVICES = ['--use-fake-device-for-media-stream', '--use-fake-ui-for-media-stream'];

/** A headless chromium with a camera and a microphone of its own making. */
export function openBrowser(...flags: string[]): Promise<Browser> {
  const rules = [`MAP ${INSECURE_HOST} 127.0.0.1`, ...flags.filter((flag) => flag.startsWith('MAP '))];
  return chromium.launch({
    executablePath: findChromium(),
    args: [
      ...FAKE_DEVICES,
      `--host-resolver-rules=${rules.join(',')}`,
      ...flags.filter((flag) => flag.startsWith('--')),
    ],
  });
}

/** The chromium of this machine. */
export function findChromium(): string {
  for (const folder of (process.env.PATH ?? '').split(delimiter)) {
    const file = join(folder, 'chromium');
    try {
      accessSync(file, constants.X_OK);
      return file;
    } catch {
      // not in this folder
    }
  }
  throw new Error('There is no chromium in PATH. Run: make system');
}
