import { Icon } from '../parts/icon.tsx';
import { zoom } from '../parts/zoom.tsx';
import type { AttachmentView } from './view.ts';

/** Images shown, sounds to be played, other files to be loaded. */
export function Files({ files }: { files: AttachmentView[] }) {
  if (files.length === 0) return null;
  return (
    <div class="files">
      {files.map(({ kind, name, url }) =>
        kind === 'image' ? (
          <button
            key={url}
            type="button"
            class="picture"
            title="Show it large"
            onClick={() => zoom({ name: name || 'Image', url })}
          >
            <img src={url} alt={name || 'Image'} loading="lazy" />
          </button>
        ) : kind === 'audio' ? (
          // biome-ignore lint/a11y/useMediaCaption: a recording of a device has none
          <audio key={url} src={url} controls aria-label={name || 'Sound'} />
        ) : (
          <a key={url} class="button" href={url} download={name}>
            <Icon name="download" />
            {name || 'File'}
          </a>
        ),
      )}
    </div>
  );
}
