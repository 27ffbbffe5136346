import type { QuestionView } from 'handspan/rest';
import { asText, Code } from '../parts/code.tsx';
import { CodeBlock } from '../parts/code-block.tsx';
import { showInvisible } from '../parts/invisible.ts';
import type { Json, JsonObject } from '../parts/schema-form.tsx';

/** Longer texts, and those with several lines, stand in a place of their own. */
const SHORT = 120;

/** What a call would do, as a person reads it: a write as a diff, a command as code, a request as method and address. */
export function Arguments({ question }: { question: QuestionView }) {
  const { arguments: given, change } = question;
  if (change?.length) {
    const { content: _, old_text: __, new_text: ___, path, ...others } = given;
    return (
      <div class="arguments">
        <p class="arguments-path">
          <code>{showInvisible(String(path))}</code>
        </p>
        <Diff lines={change} />
        <Values values={others} />
      </div>
    );
  }
  if (typeof given.command === 'string') {
    const { command, ...others } = given;
    return (
      <div class="arguments">
        <CodeBlock text={showInvisible(command)} language="bash" />
        <Values values={others} />
      </div>
    );
  }
  if (typeof given.url === 'string') {
    const { url, method, ...others } = given;
    return (
      <div class="arguments">
        <p class="arguments-request" dir="ltr">
          <b>{typeof method === 'string' ? showInvisible(method) : 'GET'}</b> <code>{showInvisible(url)}</code>
        </p>
        <Values values={others} />
      </div>
    );
  }
  return (
    <div class="arguments">
      <Values values={given} />
    </div>
  );
}

const KINDS: { [sign: string]: string } = { '+': 'added', '-': 'removed', '@': 'place' };

/** The lines of a diff as the gateway makes them: escaped, and cut where they are many. */
function Diff({ lines }: { lines: string[] }) {
  return (
    // biome-ignore lint/a11y/noNoninteractiveTabindex: a long text scrolls, and a keyboard has to reach it
    <pre class="diff" tabIndex={0} dir="ltr">
      {lines
        .filter((line) => !/^(---|\+\+\+) /.test(line))
        .map((line, index) => (
          <span key={index} class={KINDS[line.charAt(0)] ?? ''}>
            {line}
            {'\n'}
          </span>
        ))}
    </pre>
  );
}

function Values({ values }: { values: JsonObject }) {
  const entries = Object.entries(values);
  if (entries.length === 0) return null;
  return (
    <dl class="values">
      {entries.map(([name, value]) => (
        <div key={name}>
          <dt>{showInvisible(name)}</dt>
          <dd>
            <Value value={value} name={name} />
          </dd>
        </div>
      ))}
    </dl>
  );
}

function Value({ value, name }: { value: Json; name: string }) {
  if (typeof value === 'string') {
    const isShort = value.length <= SHORT && !value.includes('\n');
    const text = showInvisible(value);
    return isShort ? <span dir="auto">{text || '(empty)'}</span> : <Code text={text} label={`Copy ${name}`} />;
  }
  if (typeof value !== 'object' || value === null) return <span>{String(value)}</span>;
  return <Code text={asText(value)} label={`Copy ${name}`} />;
}
