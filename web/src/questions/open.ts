import { signal } from '@preact/signals';
import type { QuestionView } from 'handspan/rest';
import { account } from '../gateway/account.ts';
import { onUpdate } from '../gateway/live.ts';
import { rest } from '../gateway/rest.ts';

/** The questions that wait for this person, the oldest first. */
export const openQuestions = signal<QuestionView[]>([]);

let isReading = false;
let isStale = false;

/** Reads the open questions again. */
export async function readQuestions(): Promise<void> {
  if (isReading) {
    isStale = true;
    return;
  }
  isReading = true;
  try {
    openQuestions.value = (await rest.get('/api/questions')).questions;
  } catch {
    // The next update reads them again.
  }
  isReading = false;
  if (isStale) {
    isStale = false;
    void readQuestions();
  }
}

onUpdate(({ topic }) => {
  if ((topic === 'ready' || topic === 'questions') && account.value) void readQuestions();
});
