import { signal } from '@preact/signals';
import { Dialog } from './dialog.tsx';

interface Asked {
  title: string;
  text: string;
  action: string;
  answer: (yes: boolean) => void;
}

const asked = signal<Asked | undefined>(undefined);

/** Asks before something is lost. Resolves to whether the person agrees; `action` names what is done. */
export function confirm(title: string, text: string, action: string): Promise<boolean> {
  return new Promise((resolve) => {
    asked.value = {
      title,
      text,
      action,
      answer: (yes) => {
        asked.value = undefined;
        resolve(yes);
      },
    };
  });
}

export function ConfirmDialog() {
  const one = asked.value;
  return (
    <Dialog title={one?.title ?? ''} isOpen={one !== undefined} onClose={() => one?.answer(false)}>
      <p>{one?.text}</p>
      <footer class="buttons">
        <button type="button" onClick={() => one?.answer(false)}>
          Cancel
        </button>
        <button type="button" class="main danger" onClick={() => one?.answer(true)}>
          {one?.action}
        </button>
      </footer>
    </Dialog>
  );
}
