import { BrowserToolError } from './browser-tool-error.js';
import { deniedError, needNotBlocked } from './permission.js';
import { gestureMissing, hasGesture, needSecureContext, unsupportedError } from './support.js';
import { nameOf, textOf, untilAborted, within } from './waiting.js';

/** A sensor that moves with the device. */
export type MotionSensor = 'accelerometer' | 'gyroscope';

/** What a motion sensor measured. */
export interface Motion {
  readonly x: number;
  readonly y: number;
  readonly z: number;
  readonly unit: 'm/s²' | 'rad/s';
}

/** https://www.w3.org/TR/generic-sensor/ */
interface GenericSensor extends EventTarget {
  readonly x: number | null;
  readonly y: number | null;
  readonly z: number | null;
  start(): void;
  stop(): void;
}

type Sensors = {
  readonly Accelerometer?: new () => GenericSensor;
  readonly Gyroscope?: new () => GenericSensor;
  readonly DeviceMotionEvent?: typeof DeviceMotionEvent & { requestPermission?: () => Promise<PermissionState> };
};

const UNITS = { accelerometer: 'm/s²', gyroscope: 'rad/s' } as const;
const READING_MILLISECONDS = 5000;

/** One reading: of the sensor itself where the browser has it, otherwise of the events that pages get. */
export async function readMotion(type: MotionSensor, signal: AbortSignal | undefined): Promise<Motion> {
  needSecureContext(`The ${type}`);
  const { Accelerometer, Gyroscope, DeviceMotionEvent } = globalThis as Sensors;
  const Sensor = type === 'accelerometer' ? Accelerometer : Gyroscope;
  if (Sensor === undefined && DeviceMotionEvent === undefined) {
    throw unsupportedError(`The ${type}`, 'There is no other way to read it from a page.');
  }
  await needNotBlocked(type, `the ${type}`);
  const reading = Sensor === undefined ? readEvents(type, signal) : readSensor(type, Sensor, signal);
  const axes = await untilAborted(reading, signal);
  return { ...axes, unit: UNITS[type] };
}

type Axes = { x: number; y: number; z: number };

async function readSensor(
  type: MotionSensor,
  Sensor: new () => GenericSensor,
  signal: AbortSignal | undefined,
): Promise<Axes> {
  let sensor: GenericSensor | undefined;
  try {
    sensor = new Sensor();
    await untilAborted(within(READING_MILLISECONDS, firstReading(sensor), silent(type)), signal);
    return { x: sensor.x ?? 0, y: sensor.y ?? 0, z: sensor.z ?? 0 };
  } catch (error) {
    throw await explainError(error, type);
  } finally {
    sensor?.stop();
  }
}

function firstReading(sensor: GenericSensor): Promise<void> {
  return new Promise((resolve, reject) => {
    sensor.addEventListener('reading', () => resolve(), { once: true });
    sensor.addEventListener('error', (event) => reject((event as Event & { error: unknown }).error), { once: true });
    sensor.start();
  });
}

/** For the browsers without the sensors themselves; some of them ask the person first, after a click. */
async function readEvents(type: MotionSensor, signal: AbortSignal | undefined): Promise<Axes> {
  const ask = (globalThis as Sensors).DeviceMotionEvent?.requestPermission;
  if (ask !== undefined) {
    if (!hasGesture()) {
      throw gestureMissing('The question for the motion sensors');
    }
    if ((await untilAborted(ask(), signal)) !== 'granted') {
      throw await deniedError(type, `the ${type}`);
    }
  }
  const done = new AbortController();
  try {
    return await untilAborted(within(READING_MILLISECONDS, firstEvent(type, done.signal), silent(type)), signal);
  } finally {
    done.abort();
  }
}

function firstEvent(type: MotionSensor, signal: AbortSignal): Promise<Axes> {
  return new Promise((resolve) => {
    const look = (event: DeviceMotionEvent): void => {
      const axes = type === 'accelerometer' ? accelerationOf(event) : rotationOf(event);
      if (axes !== undefined) {
        resolve(axes);
      }
    };
    window.addEventListener('devicemotion', look, { signal });
  });
}

function accelerationOf({ accelerationIncludingGravity: found }: DeviceMotionEvent): Axes | undefined {
  return found?.x == null ? undefined : { x: found.x, y: found.y ?? 0, z: found.z ?? 0 };
}

/** Around x is `beta`, around y `gamma`, around z `alpha`; in degrees a second. */
function rotationOf({ rotationRate: found }: DeviceMotionEvent): Axes | undefined {
  const radians = (degrees: number | null): number => ((degrees ?? 0) * Math.PI) / 180;
  return found?.alpha == null
    ? undefined
    : { x: radians(found.beta), y: radians(found.gamma), z: radians(found.alpha) };
}

function silent(type: MotionSensor): string {
  return `The ${type} sent no reading within ${READING_MILLISECONDS / 1000} s: this device may not have one.`;
}

async function explainError(error: unknown, type: MotionSensor): Promise<unknown> {
  switch (nameOf(error)) {
    case 'NotAllowedError':
    case 'SecurityError':
      return deniedError(type, `the ${type}`, error);
    case 'NotReadableError':
      return new BrowserToolError('failed', `This device has no ${type} that can be read: ${textOf(error)}.`, {
        cause: error,
      });
    default:
      return error;
  }
}
