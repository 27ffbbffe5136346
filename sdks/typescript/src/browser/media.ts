import { BrowserToolError } from './browser-tool-error.js';
import { deniedError, needNotBlocked } from './permission.js';
import { needSecureContext, unsupportedError } from './support.js';
import { nameOf, textOf, untilAborted } from './waiting.js';

/** The camera or the microphone, for as long as `use` takes: its light goes out whatever happens. */
export async function withMedia<Value>(
  device: 'camera' | 'microphone',
  constraints: MediaStreamConstraints,
  signal: AbortSignal | undefined,
  use: (stream: MediaStream) => Promise<Value>,
): Promise<Value> {
  const stream = await openMedia(device, constraints, signal);
  try {
    return await untilAborted(use(stream), signal);
  } finally {
    stop(stream);
  }
}

async function openMedia(
  device: 'camera' | 'microphone',
  constraints: MediaStreamConstraints,
  signal: AbortSignal | undefined,
): Promise<MediaStream> {
  needSecureContext(`The ${device}`);
  if (!navigator.mediaDevices?.getUserMedia) {
    throw unsupportedError(`The ${device}`, 'Ask the person for a file instead.');
  }
  await needNotBlocked(device, `the ${device}`);
  const opening = navigator.mediaDevices.getUserMedia(constraints);
  try {
    return await untilAborted(opening, signal);
  } catch (error) {
    // the person may still say yes to a call that is over
    opening.then(stop, () => undefined);
    throw await explainError(error, device);
  }
}

async function explainError(error: unknown, device: string): Promise<unknown> {
  switch (nameOf(error)) {
    case 'NotAllowedError':
    case 'SecurityError':
      return deniedError(device, `the ${device}`, error);
    case 'NotFoundError':
    case 'OverconstrainedError':
      return new BrowserToolError('failed', `This device has no ${device} that the browser can use.`, { cause: error });
    case 'NotReadableError':
    case 'AbortError':
      return new BrowserToolError(
        'not_ready',
        `The ${device} could not be started, perhaps because another program uses it: ${textOf(error)}. Try again later.`,
        { cause: error },
      );
    default:
      return error;
  }
}

function stop(stream: MediaStream): void {
  for (const track of stream.getTracks()) {
    track.stop();
  }
}
