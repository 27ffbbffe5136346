import { BrowserToolError } from '../browser-tool-error.js';
import { withMedia } from '../media.js';
import { needSecureContext, unsupportedError } from '../support.js';
import { type BrowserTool, PERSON_SECONDS, READ_ONLY } from '../tool.js';
import { pause } from '../waiting.js';

const MOST_SECONDS = 60;
const FORMATS = ['audio/webm;codecs=opus', 'audio/mp4', 'audio/ogg;codecs=opus'];
const BITS_PER_SECOND = 32_000;

/** A clip from the microphone as a file. */
export const recordAudio: BrowserTool<'record_audio'> = {
  name: 'record_audio',
  description: 'Record what the microphone hears for some seconds, and get the sound as a file.',
  parameters: {
    type: 'object',
    properties: {
      seconds: { type: 'number', description: 'How long to record. Default 5', minimum: 0.5, maximum: MOST_SECONDS },
    },
    required: [],
    additionalProperties: false,
  },
  permissions: ['microphone'],
  timeout: PERSON_SECONDS + MOST_SECONDS,
  annotations: { ...READ_ONLY, serial: true },
  handler: async ({ seconds = 5 }: { seconds?: number }, context) => {
    if (!(seconds >= 0.5 && seconds <= MOST_SECONDS)) {
      throw new BrowserToolError('invalid', `seconds is ${seconds}: say a number from 0.5 to ${MOST_SECONDS}.`);
    }
    needSecureContext('The microphone');
    if (typeof MediaRecorder === 'undefined') {
      throw unsupportedError('Recording', 'Ask the person to send a sound file.');
    }
    return withMedia('microphone', { audio: true }, context?.signal, (stream) =>
      clip(stream, seconds, context?.signal),
    );
  },
};

async function clip(stream: MediaStream, seconds: number, signal: AbortSignal | undefined): Promise<File> {
  const mimeType = FORMATS.find((format) => MediaRecorder.isTypeSupported(format)) ?? '';
  const recorder = new MediaRecorder(stream, { mimeType, audioBitsPerSecond: BITS_PER_SECOND });
  const recording = waitForRecording(recorder);
  recorder.start();
  try {
    await Promise.race([pause(seconds * 1000, signal), recording]);
  } finally {
    if (recorder.state !== 'inactive') {
      recorder.stop();
    }
  }
  return await recording;
}

/** The whole clip once the recorder has stopped, also when the microphone was unplugged in the middle. */
function waitForRecording(recorder: MediaRecorder): Promise<File> {
  const pieces: Blob[] = [];
  return new Promise((resolve, reject) => {
    recorder.ondataavailable = ({ data }) => pieces.push(data);
    recorder.onerror = () => reject(new BrowserToolError('failed', 'The recording broke off. Try again.'));
    recorder.onstop = () => {
      const type = (recorder.mimeType.split(';')[0] ?? '') || 'audio/webm';
      resolve(new File(pieces, `recording.${type.split('/')[1]}`, { type }));
    };
  });
}
