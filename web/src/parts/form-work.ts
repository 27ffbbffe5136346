import { type Signal, useSignal } from '@preact/signals';
import { messageOf } from '../gateway/rest.ts';
import { toast } from './toast.tsx';

/** What a form needs that asks the gateway for something. */
export interface FormWork {
  /** Why it was refused: it stands in the form, beside what can be changed. Empty while nothing is wrong. */
  problem: Signal<string>;
  /** Does it, and keeps why not if it fails. Returns whether it was done. */
  attempt: (work: () => Promise<unknown>, done?: string) => Promise<boolean>;
}

/** For a form: its problem is shown in it by `<Problem text={problem.value} />`, and goes with the next attempt. */
export function useFormWork(): FormWork {
  const problem = useSignal('');
  const attempt = async (work: () => Promise<unknown>, done = ''): Promise<boolean> => {
    try {
      await work();
    } catch (error) {
      problem.value = messageOf(error);
      return false;
    }
    problem.value = '';
    if (done) toast(done);
    return true;
  };
  return { problem, attempt };
}
