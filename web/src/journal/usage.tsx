import { useSignal } from '@preact/signals';
import type { BudgetView, Total, UsageSum } from 'handspan/rest';
import { useLive } from '../gateway/live.ts';
import { rest } from '../gateway/rest.ts';
import { Empty, Problem } from '../parts/empty.tsx';
import { Choose, count, Section } from '../parts/section.tsx';

const SPANS = [
  ['today', 'Today'],
  ['week', 'This week'],
  ['month', 'This month'],
  ['all', 'All'],
] as const;
type Span = (typeof SPANS)[number][0];

/** The first day of a span, as the gateway counts days (UTC); a week begins on Monday. Empty for all. */
function firstDay(span: Span): string {
  if (span === 'all') return '';
  const day = new Date();
  if (span === 'week') day.setUTCDate(day.getUTCDate() - ((day.getUTCDay() + 6) % 7));
  if (span === 'month') day.setUTCDate(1);
  return day.toISOString().slice(0, 10);
}

/** Tokens and cost by model, and by day as small charts. What a model did not report is left empty, never 0. */
export function Usage() {
  const span = useSignal<Span>('week');
  const since = firstDay(span.value);
  const load = (by: 'model' | 'day') => () => rest.get('/api/usage', { query: { by, since } });
  const models = useLive(['calls', 'sessions'], load('model'), since);
  const days = useLive(['calls', 'sessions'], load('day'), since);
  const budgets = useLive(['calls', 'sessions'], () => rest.get('/api/budgets', {}));
  const sums = models.data.value?.usage;
  return (
    <>
      <div class="filters">
        <Choose
          label="Time"
          value={span.value}
          options={SPANS.map(([value, shown]) => [value, shown])}
          onChange={(value) => (span.value = value as Span)}
        />
      </div>
      <Problem text={models.problem.value || days.problem.value || budgets.problem.value} />
      {budgets.data.value && budgets.data.value.budgets.length > 0 && <Budgets list={budgets.data.value.budgets} />}
      {sums?.length === 0 && <Empty icon="usage" title="No model was asked in this time" />}
      {sums && sums.length > 0 && <UsageTable sums={sums} />}
      {sums && sums.length > 0 && days.data.value && <Charts days={days.data.value.usage} />}
    </>
  );
}

const dollars = (amount: number) => `$${amount.toFixed(2)}`;

/** Each budget: what is spent of it and left, for all and for each owner and agent that has one. */
function Budgets({ list }: { list: BudgetView[] }) {
  return (
    <Section title="Budgets">
      {/* biome-ignore lint/a11y/noNoninteractiveTabindex: a wide table scrolls, and a keyboard has to reach it */}
      <section class="table sums" tabIndex={0} aria-label="Budgets">
        <table>
          <thead>
            <tr>
              <th scope="col">Of</th>
              <th scope="col">Each</th>
              <th scope="col">Spent</th>
              <th scope="col">Limit</th>
              <th scope="col">Left</th>
              <th scope="col">Whole again</th>
            </tr>
          </thead>
          <tbody>
            {list.map((one) => (
              <tr key={`${one.of}/${one.period}`}>
                <th scope="row">{one.of ? one.of.replace(':', ' ') : 'all'}</th>
                <td data-title="Each">{one.period}</td>
                <td data-title="Spent">{dollars(one.spent)}</td>
                <td data-title="Limit">{dollars(one.limit + one.added)}</td>
                <td data-title="Left">{dollars(one.left)}</td>
                <td data-title="Whole again">{one.free_on}</td>
              </tr>
            ))}
          </tbody>
        </table>
      </section>
    </Section>
  );
}

function UsageTable({ sums }: { sums: UsageSum[] }) {
  return (
    <Section title="By model">
      {/* biome-ignore lint/a11y/noNoninteractiveTabindex: a wide table scrolls, and a keyboard has to reach it */}
      <section class="table sums" tabIndex={0} aria-label="Usage by model">
        <table>
          <thead>
            <tr>
              <th scope="col">Model</th>
              <th scope="col">Replies</th>
              <th scope="col">Input</th>
              <th scope="col">Cached</th>
              <th scope="col">Output</th>
              <th scope="col">Reasoning</th>
              <th scope="col">Cost</th>
            </tr>
          </thead>
          <tbody>
            {sums.map((sum) => (
              <UsageRow key={sum.of} sum={sum} />
            ))}
          </tbody>
          {sums.length > 1 && (
            <tfoot>
              <UsageRow sum={allOf(sums)} />
            </tfoot>
          )}
        </table>
      </section>
    </Section>
  );
}

function UsageRow({ sum }: { sum: UsageSum }) {
  return (
    <tr>
      <th scope="row">{sum.of || 'unknown'}</th>
      <td data-title="Replies">{count(sum.replies)}</td>
      <Known title="Input" total={sum.input} />
      <Known title="Cached" total={sum.cached} />
      <Known title="Output" total={sum.output} />
      <Known title="Reasoning" total={sum.reasoning} />
      <Known title="Cost" total={sum.cost} write={money} />
    </tr>
  );
}

/** The sums of all models. A count that none of them reported stays unknown. */
function allOf(sums: UsageSum[]): UsageSum {
  const total = (of: (sum: UsageSum) => Total): Total => {
    const known = sums.map((sum) => of(sum).known).filter((one) => one !== null);
    const unknown = sums.reduce((number, sum) => number + of(sum).unknown, 0);
    return { known: known.length ? known.reduce((one, other) => one + other, 0) : null, unknown };
  };
  return {
    of: 'All models',
    replies: sums.reduce((number, { replies }) => number + replies, 0),
    input: total(({ input }) => input),
    output: total(({ output }) => output),
    cached: total(({ cached }) => cached),
    reasoning: total(({ reasoning }) => reasoning),
    cost: total(({ cost }) => cost),
  };
}

function money(dollars: number): string {
  return `$${dollars < 1 ? dollars.toFixed(4) : dollars.toFixed(2)}`;
}

interface KnownProps {
  title: string;
  total: Total;
  write?: (value: number) => string;
}

function Known({ title, total, write = count }: KnownProps) {
  if (total.known === null) return <td data-title={title} title="The model did not report it" />;
  const missing = total.unknown > 0 ? `${total.unknown} replies did not report it` : undefined;
  return (
    <td data-title={title} title={missing}>
      {write(total.known)}
      {missing && <sup title={missing}>+</sup>}
    </td>
  );
}

function Charts({ days }: { days: UsageSum[] }) {
  const inOrder = [...days].sort((one, other) => (one.of < other.of ? -1 : 1)).slice(-30);
  return (
    <Section title="By day">
      <div class="charts">
        <Chart title="Replies" days={inOrder} amountOf={({ replies }) => replies} write={count} />
        <Chart title="Tokens" days={inOrder} amountOf={tokensOf} write={count} />
        <Chart title="Cost" days={inOrder} amountOf={({ cost }) => cost.known} write={money} />
      </div>
    </Section>
  );
}

function tokensOf({ input, output }: UsageSum): number | null {
  return input.known === null && output.known === null ? null : (input.known ?? 0) + (output.known ?? 0);
}

interface ChartProps {
  title: string;
  days: UsageSum[];
  amountOf: (day: UsageSum) => number | null;
  write: (value: number) => string;
}

/** Bars, one for each day; a day whose value is not known has none. */
function Chart({ title, days, amountOf, write }: ChartProps) {
  const values = days.map(amountOf);
  const known = values.filter((one) => one !== null);
  const most = Math.max(...known, 0);
  const step = 100 / Math.max(7, days.length);
  const total = known.reduce((sum, one) => sum + one, 0);
  const text = known.length ? `${title}: ${write(total)} in ${days.length} days` : `${title}: not known`;
  return (
    <figure>
      <figcaption>
        {title} <b>{known.length ? write(total) : ''}</b>
      </figcaption>
      <svg viewBox="0 0 100 40" preserveAspectRatio="none" role="img" aria-label={text}>
        {values.map((value, index) =>
          value === null || most === 0 ? null : (
            <rect
              key={days[index]?.of}
              x={index * step + step * 0.1}
              y={40 - (value / most) * 38}
              width={step * 0.8}
              height={(value / most) * 38}
            >
              <title>{`${days[index]?.of}: ${write(value)}`}</title>
            </rect>
          ),
        )}
      </svg>
      <small>{known.length ? [...new Set([days[0]?.of, days.at(-1)?.of])].join(' – ') : 'not reported'}</small>
    </figure>
  );
}
