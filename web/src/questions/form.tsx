import { useSignal } from '@preact/signals';
import type { GivenAnswer, QuestionView } from 'handspan/rest';
import { messageOf, rest } from '../gateway/rest.ts';
import { asText, Code } from '../parts/code.tsx';
import { Problem } from '../parts/empty.tsx';
import { defaultsOf, type JsonObject, missingIn, SchemaForm } from '../parts/schema-form.tsx';
import { Approval } from './approval.tsx';
import { readQuestions } from './open.ts';

/** What is asked, in one line. */
export function titleOf({ kind, tool, agent, action }: QuestionView): string {
  const name = /^\w+\((.*)\)$/.exec(tool)?.[1] ?? tool; // `device(desk)` is `desk`
  const by = agent ? `${agent} wants to use ${name}` : name;
  const changed = name === tool ? `${name || 'A tool'} has changed` : `What ${name} offers has changed`;
  return {
    permission: by || 'A permission is needed',
    approval: by || 'An approval is needed',
    input: agent ? `${agent} asks you` : 'A question for you',
    login: `${name || 'A server'} needs a login`,
    trust: action?.old ? changed : `${name || 'A tool'} asks for your trust`,
  }[kind];
}

/** One question with its answers, as its kind needs them. */
export function QuestionForm({ question }: { question: QuestionView }) {
  const problem = useSignal('');
  const answer = async (given: GivenAnswer) => {
    try {
      await rest.post('/api/questions/{question_id}/answer', { path: { question_id: question.id }, body: given });
    } catch (error) {
      problem.value = messageOf(error);
    }
    await readQuestions();
  };
  const parts = { question, answer: (given: GivenAnswer) => void answer(given) };
  // The second click of a double click finds the next question in the place of the one that the first has answered.
  const onClick = (event: MouseEvent) => {
    if (event.detail > 1 && event.target instanceof Element && event.target.closest('.buttons')) {
      event.preventDefault();
      event.stopPropagation();
    }
  };
  return (
    <div class={`question ${question.kind}`} onClickCapture={onClick}>
      <Problem text={problem.value} />
      {question.kind === 'input' ? (
        <Input {...parts} />
      ) : question.kind === 'login' ? (
        <Login {...parts} />
      ) : question.kind === 'trust' ? (
        <Trust {...parts} />
      ) : (
        <Approval {...parts} />
      )}
    </div>
  );
}

interface AnswerProps {
  question: QuestionView;
  answer: (given: GivenAnswer) => void;
}

const WHOLE = 'answer';
const NO = 'No';
const MOST_BUTTONS = 20;

/** An input: a form made from the schema of the answer. */
function Input({ question, answer }: AnswerProps) {
  const schema = (question.schema ?? {}) as JsonObject;
  const isObject = schema.type === 'object';
  const shown: JsonObject = isObject
    ? schema
    : { type: 'object', properties: { [WHOLE]: { title: 'Your answer', ...schema } }, required: [WHOLE] };
  const value = useSignal<JsonObject>(defaultsOf(shown));
  const missing = missingIn(shown, value.value);
  const options = isObject ? undefined : optionsOf(schema);
  if (options) return <Options question={question} options={options} answer={answer} />;
  return (
    <form
      class="fields"
      onSubmit={(event) => {
        event.preventDefault();
        answer({ decision: 'allow', value: isObject ? value.value : (value.value[WHOLE] ?? null) });
      }}
    >
      <p dir="auto">{question.subject}</p>
      <SchemaForm
        schema={shown}
        value={value.value}
        onChange={(given) => {
          value.value = given;
        }}
      />
      <footer class="buttons">
        <button type="button" onClick={() => answer({ decision: 'deny' })}>
          No answer
        </button>
        <button type="submit" class="main" disabled={missing.length > 0}>
          Answer
        </button>
      </footer>
    </form>
  );
}

/** The few answers of a schema that has no others. */
function optionsOf({ enum: options }: JsonObject): string[] | undefined {
  const isShort = Array.isArray(options) && options.length > 0 && options.length <= MOST_BUTTONS;
  return isShort && options.every((one) => typeof one === 'string') ? (options as string[]) : undefined;
}

/** Answers to choose from: a click is the answer. */
function Options({ question, options, answer }: AnswerProps & { options: string[] }) {
  return (
    <>
      <p dir="auto">{question.subject}</p>
      <footer class="buttons options">
        {options.map((option) => (
          <button key={option} type="button" dir="auto" onClick={() => answer({ decision: 'allow', value: option })}>
            {option}
          </button>
        ))}
        {!options.includes(NO) && (
          <button type="button" class="as-link" onClick={() => answer({ decision: 'deny' })}>
            No answer
          </button>
        )}
      </footer>
    </>
  );
}

/** A login: a page to open, and the word that it is done. */
function Login({ question, answer }: AnswerProps) {
  const { url = '', hint, intent } = question.action ?? {};
  const isSafe = /^https?:\/\//i.test(url);
  const problem = useSignal('');
  const begin = async () => {
    try {
      await rest.post('/api/questions/{question_id}/start', { path: { question_id: question.id } });
      problem.value = '';
    } catch (error) {
      problem.value = messageOf(error);
    }
  };
  return (
    <>
      <p dir="auto">{question.subject}</p>
      {hint && <p class="muted">{hint}</p>}
      <Problem text={problem.value} />
      <footer class="buttons">
        <button type="button" onClick={() => answer({ decision: 'deny' })}>
          Not now
        </button>
        <button type="button" onClick={() => answer({ decision: 'allow' })}>
          I have logged in
        </button>
        {!isSafe && intent && (
          <button type="button" class="main" onClick={() => void begin()}>
            Begin the login there
          </button>
        )}
        {isSafe && (
          <a class="button main" href={url} target="_blank" rel="noopener noreferrer">
            Open the login page
          </a>
        )}
      </footer>
    </>
  );
}

/** A changed definition, the accepted one and the new one side by side; or something that was never accepted. */
function Trust({ question, answer }: AnswerProps) {
  const { old, new: fresh } = question.action ?? {};
  return (
    <>
      <p dir="auto">{question.subject}</p>
      <div class={old ? 'compare' : ''}>
        {old && (
          <section>
            <h3>Accepted before</h3>
            <Code text={asText(old)} label="Copy the old definition" />
          </section>
        )}
        <section>
          <h3>{old ? 'Offered now' : 'What it is'}</h3>
          <Code text={fresh ? asText(fresh) : 'nothing'} label="Copy the new definition" />
        </section>
      </div>
      <footer class="buttons">
        <button type="button" onClick={() => answer({ decision: 'deny' })}>
          Keep it off
        </button>
        <button type="button" class="main" onClick={() => answer({ decision: 'allow' })}>
          {old ? 'Accept the new one' : 'Trust it'}
        </button>
      </footer>
    </>
  );
}
