import { BrowserToolError } from './browser-tool-error.js';
import { deniedError, needNotBlocked } from './permission.js';
import { needSecureContext, unsupportedError } from './support.js';
import { untilAborted } from './waiting.js';

const WHAT = 'the location';
const SECONDS_TO_FIND = 30;

/** Where the device is; the browser asks the person when it has to. */
export async function findPosition(options: PositionOptions, signal?: AbortSignal): Promise<GeolocationPosition> {
  needSecureContext('The location');
  if (!navigator.geolocation) {
    throw unsupportedError('The location', 'Ask the person where they are.');
  }
  await needNotBlocked('geolocation', WHAT);
  const finding = new Promise<GeolocationPosition>((resolve, reject) => {
    navigator.geolocation.getCurrentPosition(resolve, reject, { timeout: SECONDS_TO_FIND * 1000, ...options });
  });
  try {
    return await untilAborted(finding, signal);
  } catch (error) {
    throw await explainError(error);
  }
}

async function explainError(error: unknown): Promise<unknown> {
  if (!(error instanceof GeolocationPositionError)) {
    return error;
  }
  switch (error.code) {
    case error.PERMISSION_DENIED:
      return deniedError('geolocation', WHAT, error);
    case error.TIMEOUT:
      return new BrowserToolError(
        'too_late',
        `The device did not find its location within ${SECONDS_TO_FIND} s. Try again, or ask the person where they are.`,
      );
    default:
      return new BrowserToolError(
        'failed',
        'The device can’t find its location at the moment. Ask the person where they are.',
      );
  }
}
