import { signal } from '@preact/signals';
import { Dialog } from './dialog.tsx';
import { Icon } from './icon.tsx';

interface Picture {
  name: string;
  url: string;
}

const shown = signal<Picture | undefined>(undefined);

/** Shows an image as large as the screen allows. */
export function zoom(picture: Picture): void {
  shown.value = picture;
}

/** The image that is shown large. */
export function ZoomDialog() {
  const picture = shown.value;
  return (
    <Dialog
      title={picture?.name ?? ''}
      isOpen={picture !== undefined}
      onClose={() => {
        shown.value = undefined;
      }}
      kind="wide"
    >
      {picture && (
        <>
          <img class="zoomed" src={picture.url} alt={picture.name} />
          <footer class="buttons">
            <a class="button" href={picture.url} target="_blank" rel="noopener">
              In a tab of its own
            </a>
            <a class="button" href={picture.url} download={picture.name}>
              <Icon name="download" /> Save
            </a>
          </footer>
        </>
      )}
    </Dialog>
  );
}
