import { useSignal } from '@preact/signals';
import type { ListedCall } from 'handspan/rest';
import { memo } from 'preact/compat';
import { useEffect, useMemo, useRef } from 'preact/hooks';
import { Ago, duration } from '../parts/ago.tsx';
import { Badge } from '../parts/list.tsx';
import { originTitle } from '../parts/section.tsx';
import { href } from '../router.ts';

/** The height of a row in pixels, as in `journal.css`. */
const ROW = 52;
/** Rows are added and removed so many at a time: not in every frame of a scroll. */
const STEP = 4;
const BEFORE_AND_AFTER = 8;

/** The calls as rows. Only those in sight are drawn, so that thousands scroll as quickly as ten. */
export function CallRows({ calls, onEnd }: { calls: ListedCall[]; onEnd: () => void }) {
  const box = useRef<HTMLUListElement>(null);
  const seen = useSignal({ first: 0, last: 30 });
  useEffect(() => {
    const element = box.current;
    const scroller = element?.closest('main');
    if (!element || !scroller) return;
    // Where the list begins and how much is in sight is measured when a size changes, not while it scrolls.
    let begin = 0;
    let height = 0;
    const look = () => {
      const above = scroller.scrollTop - begin;
      const first = Math.max(0, Math.floor(above / ROW / STEP) * STEP - BEFORE_AND_AFTER);
      const last = first + Math.ceil(height / ROW) + STEP + 2 * BEFORE_AND_AFTER;
      if (first !== seen.value.first || last !== seen.value.last) seen.value = { first, last };
      if (last >= calls.length) onEnd();
    };
    const sizes = new ResizeObserver(() => {
      begin = element.getBoundingClientRect().top - scroller.getBoundingClientRect().top + scroller.scrollTop;
      height = scroller.clientHeight;
      look();
    });
    sizes.observe(element);
    sizes.observe(scroller);
    scroller.addEventListener('scroll', look, { passive: true });
    return () => {
      scroller.removeEventListener('scroll', look);
      sizes.disconnect();
    };
  }, [calls]);
  const { first, last } = seen.value;
  const full = useMemo(() => fullBar(calls), [calls]);
  return (
    <ul ref={box} class="list calls" aria-label="Calls" style={{ height: `${calls.length * ROW + 2}px` }}>
      {calls.slice(first, last).map((call, index) => (
        <CallRow key={call.id} call={call} place={first + index} of={calls.length} full={full} />
      ))}
    </ul>
  );
}

/** The seconds of a full bar: 95 of 100 calls took no longer. So one slow call does not make all others look alike. */
function fullBar(calls: ListedCall[]): number {
  const times = calls.map((call) => call.duration).sort((one, other) => one - other);
  return Math.max(0.001, times[Math.floor(times.length * 0.95)] ?? 0);
}

interface RowProps {
  call: ListedCall;
  place: number;
  of: number;
  full: number;
}

/** Drawn anew only when its call changes: scrolling moves the rows that are there, and draws the new ones alone. */
const CallRow = memo(function CallRow({ call, place, of, full }: RowProps) {
  return (
    <li class="call-row" aria-setsize={of} aria-posinset={place + 1} style={{ top: `${place * ROW}px` }}>
      <a href={href('journal', 'calls', call.id)}>
        <span class="call-tool">{call.tool}</span>
        <span class="call-origin">{call.origin ? originTitle(call.origin) : 'no such tool'}</span>
        <CallStatus status={call.status} />
        <DurationBar share={call.duration / full} />
        <span class="call-duration">{call.state === 'done' ? duration(call.duration) : '…'}</span>
        <span class="call-at">
          <Ago at={call.at} />
        </span>
      </a>
    </li>
  );
});

export function CallStatus({ status }: { status: string }) {
  return <Badge kind={status === 'success' ? 'good' : status === 'open' ? 'waits' : 'bad'}>{status}</Badge>;
}

/** A bar for a share between 0 and 1. */
export function DurationBar({ share }: { share: number }) {
  return <span class="bar" style={{ backgroundSize: `${Math.max(1.5, Math.min(1, share) * 100)}% 100%` }} />;
}
