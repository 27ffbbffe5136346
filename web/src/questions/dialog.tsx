import { useSignal } from '@preact/signals';
import { Dialog } from '../parts/dialog.tsx';
import { QuestionForm, titleOf } from './form.tsx';
import { openQuestions } from './open.ts';

/** The oldest open question, over whatever page the person looks at. Closed without an answer, it stays in the list. */
export function QuestionDialog() {
  const put = useSignal<string[]>([]);
  const question = openQuestions.value.find(({ id }) => !put.value.includes(id));
  const close = () => {
    if (question) put.value = [...put.value, question.id];
  };
  return (
    <Dialog title={question ? titleOf(question) : ''} isOpen={question !== undefined} onClose={close}>
      {question && <QuestionForm key={question.id} question={question} />}
    </Dialog>
  );
}
