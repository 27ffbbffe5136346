import { useSignal } from '@preact/signals';
import type { QuestionView } from 'handspan/rest';
import { Dialog } from '../parts/dialog.tsx';
import { useMedia } from '../parts/media.ts';
import { route } from '../router.ts';
import { QuestionForm, titleOf } from './form.tsx';
import { openQuestions } from './open.ts';

/** Whether the page that the person looks at shows the question itself: under its call, or in the list of all. */
function isShownHere({ session }: QuestionView): boolean {
  const { page, rest } = route.value;
  return page === 'questions' || (page === 'chat' && session !== '' && rest[0] === session);
}

/**
 * The oldest open question that is not shown where the person is, over the page that they look at. On a phone it comes
 * from below, and those of the chat do, too. Closed without an answer, it stays in the list.
 */
export function QuestionDialog() {
  const put = useSignal<string[]>([]);
  const isPhone = useMedia('(max-width: 47.5rem)');
  const isCovered = (one: QuestionView) => isShownHere(one) && (!isPhone || route.value.page === 'questions');
  const question = openQuestions.value.find((one) => !put.value.includes(one.id) && !isCovered(one));
  const close = () => {
    if (question) put.value = [...put.value, question.id];
  };
  return (
    <Dialog
      title={question ? titleOf(question) : ''}
      isOpen={question !== undefined}
      onClose={close}
      kind={isPhone ? 'drawer' : 'dialog'}
    >
      {question && <QuestionForm key={question.id} question={question} />}
    </Dialog>
  );
}
