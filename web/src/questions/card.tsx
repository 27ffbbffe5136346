import type { QuestionView } from 'handspan/rest';
import { Icon } from '../parts/icon.tsx';
import { QuestionForm, titleOf } from './form.tsx';

/** A question where it belongs: under its call, or in the list of all questions. */
export function QuestionCard({ question }: { question: QuestionView }) {
  const title = titleOf(question);
  return (
    <section class="question-card" aria-label={title}>
      <h3>
        <Icon name={question.kind === 'input' ? 'question' : 'shield'} />
        {title}
      </h3>
      <QuestionForm question={question} />
    </section>
  );
}
