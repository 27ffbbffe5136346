import { needSecureContext, unsupportedError } from '../support.js';
import { type BrowserTool, NO_ARGUMENTS, READ_ONLY } from '../tool.js';
import { untilAborted } from '../waiting.js';

interface BatteryManager {
  readonly level: number;
  readonly charging: boolean;
  readonly chargingTime: number;
  readonly dischargingTime: number;
}

/** How full the battery is. */
export const battery: BrowserTool<'battery'> = {
  name: 'battery',
  description: "Get the charge of the device's battery in percent, and whether it is being charged.",
  parameters: NO_ARGUMENTS,
  annotations: READ_ONLY,
  handler: async (_args, context) => {
    needSecureContext('The battery');
    const told = navigator as Navigator & { getBattery?: () => Promise<BatteryManager> };
    if (told.getBattery === undefined) {
      throw unsupportedError('The battery', 'Ask the person.');
    }
    const found = await untilAborted(told.getBattery(), context?.signal);
    return {
      percent: Math.round(found.level * 100),
      charging: found.charging,
      seconds_until_full: secondsOf(found.chargingTime),
      seconds_until_empty: secondsOf(found.dischargingTime),
    };
  },
};

/** Infinity, which JSON does not have, means that the time is unknown. */
function secondsOf(time: number): number | null {
  return Number.isFinite(time) ? time : null;
}
