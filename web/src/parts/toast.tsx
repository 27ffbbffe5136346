import { effect, signal } from '@preact/signals';
import { messageOf } from '../gateway/rest.ts';
import { route } from '../router.ts';
import { Icon } from './icon.tsx';

interface Toast {
  id: number;
  text: string;
  isProblem: boolean;
  stays: boolean;
  /** What can still be done, such as taking it back. */
  action?: Action | undefined;
}

interface Action {
  label: string;
  run: () => void;
}

interface ToastOptions {
  isProblem?: boolean;
  stays?: boolean;
  action?: Action;
  /** How long it is shown; with none as long as usual. */
  seconds?: number;
}

const SECONDS = 6;
const MOST = 4;
/** Messages of agents to the person: an agent that goes on writing must not fill the page's memory. */
const MOST_THAT_STAY = 100;
const toasts = signal<Toast[]>([]);
let last = 0;

// What went wrong on one page means nothing on the next.
let page = route.value.page;
effect(() => {
  if (route.value.page === page) return;
  page = route.value.page;
  toasts.value = toasts.peek().filter(({ isProblem, stays }) => stays || !isProblem);
});

/** Shows a sentence for some seconds; one that `stays`, until the person hides it. */
export function toast(text: string, { isProblem = false, stays = false, action, seconds }: ToastOptions = {}): void {
  last += 1;
  const id = last;
  const all = [...toasts.value, { id, text, isProblem, stays, action }];
  const [staying, passing] = [all.filter((one) => one.stays), all.filter((one) => !one.stays)];
  const kept = new Set([...staying.slice(-MOST_THAT_STAY), ...passing.slice(-MOST)]);
  toasts.value = all.filter((one) => kept.has(one));
  if (!stays) setTimeout(() => hide(id), 1000 * (seconds ?? SECONDS * (isProblem || action ? 2 : 1)));
}

/** Does it, and shows why not if it fails. Returns whether it was done. */
export async function attempt(work: () => Promise<unknown>, done = ''): Promise<boolean> {
  try {
    await work();
  } catch (error) {
    toast(messageOf(error), { isProblem: true });
    return false;
  }
  if (done) toast(done);
  return true;
}

function hide(id: number): void {
  toasts.value = toasts.value.filter((one) => one.id !== id);
}

/** The sentences, the newest below. Drawn inside of an open dialog, too: nothing outside of it can be seen or heard. */
export function Toasts() {
  return (
    <div class="toasts" role="status" aria-live="polite">
      {[...toasts.value].reverse().map(({ id, text, isProblem, action }) => (
        <div key={id} class={isProblem ? 'toast bad' : 'toast'}>
          <Icon name={isProblem ? 'alert' : 'check'} />
          <span>{text}</span>
          {action && (
            <button
              type="button"
              onClick={() => {
                hide(id);
                action.run();
              }}
            >
              {action.label}
            </button>
          )}
          <button type="button" class="plain" aria-label="Hide" onClick={() => hide(id)}>
            <Icon name="close" />
          </button>
        </div>
      ))}
    </div>
  );
}
