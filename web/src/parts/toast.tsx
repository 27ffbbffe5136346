import { signal } from '@preact/signals';
import { messageOf } from '../gateway/rest.ts';
import { Icon } from './icon.tsx';

interface Toast {
  id: number;
  text: string;
  isProblem: boolean;
  stays: boolean;
}

const SECONDS = 6;
const MOST = 4;
/** Messages of agents to the person: an agent that goes on writing must not fill the page's memory. */
const MOST_THAT_STAY = 100;
const toasts = signal<Toast[]>([]);
let last = 0;

/** Shows a sentence for some seconds; one that `stays`, until the person hides it. */
export function toast(text: string, { isProblem = false, stays = false } = {}): void {
  last += 1;
  const id = last;
  const all = [...toasts.value, { id, text, isProblem, stays }];
  const [staying, passing] = [all.filter((one) => one.stays), all.filter((one) => !one.stays)];
  const kept = new Set([...staying.slice(-MOST_THAT_STAY), ...passing.slice(-MOST)]);
  toasts.value = all.filter((one) => kept.has(one));
  if (!stays) setTimeout(() => hide(id), SECONDS * (isProblem ? 2000 : 1000));
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
      {[...toasts.value].reverse().map(({ id, text, isProblem }) => (
        <div key={id} class={isProblem ? 'toast bad' : 'toast'}>
          <Icon name={isProblem ? 'alert' : 'check'} />
          <span>{text}</span>
          <button type="button" class="plain" aria-label="Hide" onClick={() => hide(id)}>
            <Icon name="close" />
          </button>
        </div>
      ))}
    </div>
  );
}
