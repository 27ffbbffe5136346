import { useLive } from '../gateway/live.ts';
import { rest } from '../gateway/rest.ts';
import type { PageProps } from '../pages.ts';
import { confirm } from '../parts/confirm.tsx';
import { Empty, Problem } from '../parts/empty.tsx';
import { Badge, List, Row, Sheet } from '../parts/list.tsx';
import { Section } from '../parts/section.tsx';
import { attempt } from '../parts/toast.tsx';
import { href } from '../router.ts';
import { QuestionCard } from './card.tsx';
import { openQuestions } from './open.ts';

/** The questions that wait for this person, and the rules that answer in their place. */
export function Page(_: PageProps) {
  const questions = openQuestions.value;
  return (
    <Sheet title="Questions" text="What agents and tools want to know before they go on.">
      {questions.length === 0 && <Empty icon="question" title="Nothing waits for you" />}
      {questions.map((question) => (
        <div key={question.id} class="question-row">
          <small>
            {question.session && <a href={href('chat', question.session)}>{question.agent || 'The chat'}</a>}
          </small>
          <QuestionCard question={question} />
        </div>
      ))}
      <Rules />
    </Sheet>
  );
}

function Rules() {
  const { data, problem, reload } = useLive(['questions', 'tools'], () => rest.get('/api/rules'));
  const rules = data.value?.rules;
  const takeBack = async (tool: string) => {
    const text = `Every rule of ${tool} is forgotten, and you are asked again.`;
    if (!(await confirm('Take the rules back?', text, 'Take back'))) return;
    await attempt(() => rest.delete('/api/rules/{tool}', { path: { tool } }));
    await reload();
  };
  return (
    <Section title="Rules">
      <Problem text={problem.value} />
      {rules?.length === 0 && (
        <p class="muted">There are none. An answer with “always” or “for ever” makes one, and it stands here.</p>
      )}
      {rules && rules.length > 0 && (
        <List label="Rules">
          {rules.map(({ tool, kind, subject, answer }) => (
            <Row
              key={`${tool} ${kind} ${subject}`}
              title={tool}
              text={`${kind}: ${subject}`}
              side={<Badge kind={answer === 'always' ? 'good' : 'bad'}>{answer}</Badge>}
              actions={
                <button type="button" aria-label={`Take back the rules of ${tool}`} onClick={() => void takeBack(tool)}>
                  Take back
                </button>
              }
            />
          ))}
        </List>
      )}
    </Section>
  );
}
