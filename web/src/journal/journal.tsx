import { useSignal } from '@preact/signals';
import type { ToolTiming } from 'handspan/rest';
import { useEffect } from 'preact/hooks';
import { useLive } from '../gateway/live.ts';
import { rest } from '../gateway/rest.ts';
import type { PageProps } from '../pages.ts';
import { duration } from '../parts/ago.tsx';
import { Empty, Problem } from '../parts/empty.tsx';
import { Sheet } from '../parts/list.tsx';
import { Choose, count, originTitle, plural, Tabs } from '../parts/section.tsx';
import { go, href } from '../router.ts';
import { CallDialog } from './call-dialog.tsx';
import { CallRows, DurationBar } from './call-list.tsx';
import { Calls, type Filter } from './calls.ts';
import { Usage } from './usage.tsx';

/** Milliseconds between two readings of all times. */
const TIMINGS_PAUSE = 5000;
const ANY: Filter = { tool: '', origin: '', session: '', status: '' };

/** Every call as it happens, how long tools take, and what models used. */
export function Page({ rest: [part = 'calls', id] }: PageProps) {
  const tabs = [
    ['calls', 'Calls'],
    ['tools', 'By tool'],
    ['usage', 'Usage'],
  ] as const;
  return (
    <Sheet title="Journal">
      <Tabs
        label="Parts of the journal"
        tabs={tabs.map(([one, title]) => ({ href: href('journal', one), title, isHere: one === part }))}
      />
      {part === 'usage' ? <Usage /> : <FilteredPart part={part} id={id} />}
    </Sheet>
  );
}

function FilteredPart({ part, id }: { part: string; id: string | undefined }) {
  const filter = useSignal(ANY);
  return (
    <>
      <Filters
        filter={filter.value}
        hasStatus={part === 'calls'}
        onChange={(changed) => (filter.value = { ...filter.value, ...changed })}
      />
      {part === 'tools' ? <TimingsPart filter={filter.value} /> : <CallsPart filter={filter.value} />}
      <CallDialog id={part === 'calls' ? id : undefined} onClose={() => go('journal', ['calls'])} />
    </>
  );
}

function NoCall({ isFiltered }: { isFiltered: boolean }) {
  return (
    <Empty
      icon="journal"
      title={isFiltered ? 'No call fits' : 'No tool was called yet'}
      text={isFiltered ? 'Choose less above.' : 'Calls appear here as they happen.'}
    />
  );
}

function CallsPart({ filter }: { filter: Filter }) {
  const calls = useSignal<Calls | undefined>(undefined);
  useEffect(() => {
    const read = new Calls(filter);
    calls.value = read;
    return () => read.close();
  }, [filter]);
  const found = calls.value?.list.value;
  return (
    <>
      <Problem text={calls.value?.problem.value ?? ''} />
      {found?.length === 0 && <NoCall isFiltered={Object.values(filter).some(Boolean)} />}
      {found && found.length > 0 && (
        <>
          <p class="muted" role="status">
            {plural(found.length, 'call')}
            {calls.value?.hasMore.value ? ', and older ones' : ''}
          </p>
          <CallRows calls={found} onEnd={() => void calls.value?.more()} />
        </>
      )}
    </>
  );
}

/** How long tools take, over all calls of the journal. It reads every one of them, so it is asked for less often. */
function TimingsPart({ filter: { status: _, ...query } }: { filter: Filter }) {
  const load = () => rest.get('/api/calls/timings', { query });
  const { data, problem } = useLive(['calls'], load, JSON.stringify(query), TIMINGS_PAUSE);
  const timings = data.value?.tools;
  return (
    <>
      <Problem text={problem.value} />
      {timings?.length === 0 && <NoCall isFiltered={Object.values(query).some(Boolean)} />}
      {timings && timings.length > 0 && <Timings timings={timings} />}
    </>
  );
}

interface FilterProps {
  filter: Filter;
  hasStatus: boolean;
  onChange: (changed: Partial<Filter>) => void;
}

function Filters({ filter, hasStatus, onChange }: FilterProps) {
  const tools = useLive(['tools', 'devices'], () => rest.get('/api/tools')).data.value?.tools ?? [];
  const sessions = useLive(['sessions'], () => rest.get('/api/sessions')).data.value?.sessions ?? [];
  const names = [...new Set(tools.map(({ name }) => name))];
  const origins = [...new Set(tools.map(({ origin: { kind, name } }) => (name ? `${kind}(${name})` : kind)))].map(
    (one): [string, string] => [one, originTitle(one)],
  );
  return (
    <div class="filters">
      <Choose
        label="Tool"
        value={filter.tool}
        options={[['', 'all'], ...names]}
        onChange={(tool) => onChange({ tool })}
      />
      <Choose
        label="From"
        value={filter.origin}
        options={[['', 'everywhere'], ...origins]}
        onChange={(origin) => onChange({ origin })}
      />
      <Choose
        label="Session"
        value={filter.session}
        options={[
          ['', 'all'],
          ...sessions.map((one): [string, string] => [one.session_id, one.name || one.session_id.slice(0, 8)]),
        ]}
        onChange={(session) => onChange({ session })}
      />
      {hasStatus && (
        <Choose
          label="Status"
          value={filter.status}
          options={[['', 'all'], 'open', 'success', 'error']}
          onChange={(status) => onChange({ status: status as Filter['status'] })}
        />
      )}
    </div>
  );
}

function Timings({ timings }: { timings: ToolTiming[] }) {
  const slowest = Math.max(0.001, ...timings.map(({ p95 }) => p95));
  return (
    // biome-ignore lint/a11y/noNoninteractiveTabindex: a wide table scrolls, and a keyboard has to reach it
    <section class="table" tabIndex={0} aria-label="How long tools take">
      <table>
        <thead>
          <tr>
            <th scope="col">Tool</th>
            <th scope="col">Calls</th>
            <th scope="col">Failed</th>
            <th scope="col" title="Half of the calls took no longer">
              p50
            </th>
            <th scope="col" title="95 of 100 calls took no longer">
              p95
            </th>
            <td />
          </tr>
        </thead>
        <tbody>
          {timings.map(({ tool, calls, failed, p50, p95 }) => (
            <tr key={tool}>
              <th scope="row">
                <a href={href('tools', tool)}>{tool}</a>
              </th>
              <td>{count(calls)}</td>
              <td>{failed || ''}</td>
              <td>{duration(p50)}</td>
              <td>{duration(p95)}</td>
              <td>
                <DurationBar share={p95 / slowest} />
              </td>
            </tr>
          ))}
        </tbody>
      </table>
    </section>
  );
}
