import { BrowserToolError } from '../browser-tool-error.js';
import { withMedia } from '../media.js';
import { type BrowserTool, PERSON_SECONDS, READ_ONLY } from '../tool.js';
import { within } from '../waiting.js';

const SIZES = {
  low: { width: 640, height: 360, jpeg: 0.75 },
  high: { width: 1920, height: 1080, jpeg: 0.9 },
};
/** The first frames of many cameras are dark. */
const FRAMES_TO_SETTLE = 5;
const SETTLE_MILLISECONDS = 1500;
const FRAME_MILLISECONDS = 10_000;

/** A photo as a JPEG file. */
export const camera: BrowserTool<'camera'> = {
  name: 'camera',
  description: 'Take a photo',
  parameters: {
    type: 'object',
    properties: { quality: { type: 'string', enum: ['low', 'high'] } },
    required: [],
  },
  permissions: ['camera'],
  timeout: PERSON_SECONDS,
  annotations: READ_ONLY,
  handler: async ({ quality = 'low' }: { quality?: 'low' | 'high' }, context) => {
    const size = SIZES[quality];
    const video = {
      width: { ideal: size.width },
      height: { ideal: size.height },
      facingMode: { ideal: 'environment' },
    };
    return withMedia('camera', { video }, context?.signal, (stream) => photo(stream, size.jpeg));
  },
};

async function photo(stream: MediaStream, jpeg: number): Promise<File> {
  const video = document.createElement('video');
  video.muted = true;
  video.playsInline = true;
  video.srcObject = stream;
  try {
    const late = 'The camera was opened but sent no picture within 10 s. Try again later.';
    await within(FRAME_MILLISECONDS, video.play(), late);
    await waitForVideo(video);
    return await pictureOf(video, jpeg);
  } finally {
    video.srcObject = null;
  }
}

/** Resolves when the camera has found its brightness, or has had time for it: a tab in the background gets no frames. */
function waitForVideo(video: HTMLVideoElement): Promise<void> {
  return new Promise((resolve) => {
    const timer = setTimeout(resolve, SETTLE_MILLISECONDS);
    let frames = 0;
    const count = (): void => {
      frames += 1;
      if (frames < FRAMES_TO_SETTLE) {
        video.requestVideoFrameCallback(count);
      } else {
        clearTimeout(timer);
        resolve();
      }
    };
    video.requestVideoFrameCallback?.(count);
  });
}

async function pictureOf(video: HTMLVideoElement, jpeg: number): Promise<File> {
  const canvas = document.createElement('canvas');
  canvas.width = video.videoWidth;
  canvas.height = video.videoHeight;
  canvas.getContext('2d')?.drawImage(video, 0, 0);
  const blob = await new Promise<Blob | null>((resolve) => canvas.toBlob(resolve, 'image/jpeg', jpeg));
  if (blob === null) {
    throw new BrowserToolError('failed', 'The camera sent a picture that the browser can’t draw. Try again.');
  }
  return new File([blob], 'photo.jpg', { type: blob.type });
}
