import { useSignal } from '@preact/signals';
import type { GivenAnswer, QuestionView } from 'handspan/rest';
import { useEffect, useRef } from 'preact/hooks';
import { messageOf } from '../gateway/rest.ts';
import { asText } from '../parts/code.tsx';
import { Problem } from '../parts/empty.tsx';
import { showInvisible } from '../parts/invisible.ts';
import { type JsonObject, SchemaForm } from '../parts/schema-form.tsx';
import { href } from '../router.ts';
import { Arguments } from './arguments.tsx';

interface ApprovalProps {
  question: QuestionView;
  answer: (given: GivenAnswer) => void;
}

/**
 * Permission and approval: allow, with other arguments or always, deny once or for ever. A permission that is given is
 * remembered (SPEC P2), so for it there is no "once".
 */
export function Approval({ question, answer }: ApprovalProps) {
  const isEditing = useSignal(false);
  const hasArguments = Object.keys(question.arguments ?? {}).length > 0;
  const isApproval = question.kind === 'approval';
  const edit = useRef<HTMLButtonElement>(null);
  if (isEditing.value) {
    const back = () => {
      isEditing.value = false;
      requestAnimationFrame(() => edit.current?.focus());
    };
    return <Edit question={question} answer={answer} onBack={back} />;
  }
  return (
    <>
      <p>
        {isApproval ? question.subject : `It needs the permission ${question.subject}.`}
        {!hasArguments && ' It is called without arguments.'}
      </p>
      {hasArguments && <Arguments question={question} />}
      {!isApproval && (
        <p class="muted">
          If you allow it, or deny it for ever, that is remembered: it stands under{' '}
          <a href={href('questions')}>Questions</a>, and can be taken back there.
        </p>
      )}
      <footer class="buttons">
        {isApproval && (
          <button
            type="button"
            ref={edit}
            onClick={() => {
              isEditing.value = true;
            }}
          >
            Edit
          </button>
        )}
        <Rules question={question} answer={answer} />
        <button type="button" onClick={() => answer({ decision: 'deny' })}>
          Deny
        </button>
        <button type="button" class="main" onClick={() => answer({ decision: 'allow', always: false })}>
          {isApproval ? 'Allow once' : 'Allow'}
        </button>
      </footer>
    </>
  );
}

/** The answers that make a rule. They stand apart: a click in haste makes none. */
function Rules({ question, answer }: ApprovalProps) {
  const isApproval = question.kind === 'approval';
  return (
    <details class="rules">
      <summary>For ever…</summary>
      <div class="buttons">
        {isApproval && (
          <button type="button" onClick={() => answer({ decision: 'allow', always: true })}>
            Always allow
          </button>
        )}
        <button type="button" class="danger" onClick={() => answer({ decision: 'deny_forever' })}>
          Deny for ever
        </button>
      </div>
      <small>Both can be taken back under Questions.</small>
    </details>
  );
}

/** The arguments as a form with the words of the tool's schema, or as JSON. The gateway checks them. */
function Edit({ question, answer, onBack }: ApprovalProps & { onBack: () => void }) {
  const given = question.arguments as JsonObject;
  const schema = question.parameters as JsonObject | null | undefined;
  // What is invisible can be seen in JSON alone.
  const isHidden = JSON.stringify(given) !== showInvisible(JSON.stringify(given));
  const value = useSignal<JsonObject>(given);
  const text = useSignal<string | undefined>(schema && !isHidden ? undefined : asText(given));
  const problem = useSignal('');
  const form = useRef<HTMLFormElement>(null);
  useEffect(() => {
    form.current?.querySelector<HTMLElement>('input, select, textarea')?.focus();
  }, [text.value === undefined]);
  const read = (): JsonObject | undefined => {
    if (text.value === undefined) return value.value;
    try {
      return JSON.parse(text.value) as JsonObject;
    } catch (error) {
      problem.value = `These arguments are not JSON: ${messageOf(error)}`;
      return undefined;
    }
  };
  const turn = () => {
    const read_ = read();
    if (!read_) return;
    problem.value = '';
    value.value = read_;
    text.value = text.value === undefined ? asText(read_) : undefined;
  };
  return (
    <form
      ref={form}
      class="fields"
      onSubmit={(event) => {
        event.preventDefault();
        const edited = read();
        if (edited) answer({ decision: 'allow', always: false, arguments: edited });
      }}
    >
      <p>It runs with what stands here, and the model is told what you have changed.</p>
      {text.value === undefined && schema ? (
        <SchemaForm
          schema={schema}
          value={value.value}
          onChange={(changed) => {
            value.value = changed;
          }}
        />
      ) : (
        <textarea
          class="mono"
          aria-label="Arguments"
          rows={Math.min(14, (text.value ?? '').split('\n').length + 1)}
          value={text.value}
          onInput={(event) => {
            text.value = event.currentTarget.value;
          }}
        />
      )}
      <Problem text={problem.value} />
      <footer class="buttons">
        {schema && (
          <button type="button" class="as-link" onClick={turn}>
            {text.value === undefined ? 'As JSON' : 'As a form'}
          </button>
        )}
        <button type="button" onClick={onBack}>
          Back
        </button>
        <button type="submit" class="main">
          Allow with these
        </button>
      </footer>
    </form>
  );
}
