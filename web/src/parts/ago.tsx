import { signal } from '@preact/signals';

const UNITS: [Intl.RelativeTimeFormatUnit, number][] = [
  ['year', 31_536_000],
  ['month', 2_592_000],
  ['week', 604_800],
  ['day', 86_400],
  ['hour', 3_600],
  ['minute', 60],
];
const relative = new Intl.RelativeTimeFormat('en', { numeric: 'auto', style: 'short' });
const exact = new Intl.DateTimeFormat(undefined, { dateStyle: 'medium', timeStyle: 'medium' });
const clock = new Intl.DateTimeFormat(undefined, { timeStyle: 'short' });
const now = signal(Date.now());
setInterval(() => {
  now.value = Date.now();
}, 30_000);

function inWords(seconds: number): string {
  for (const [unit, size] of UNITS) {
    if (Math.abs(seconds) >= size) return relative.format(-Math.trunc(seconds / size), unit);
  }
  return 'just now';
}

/** How long ago something was, with the exact time behind it. */
export function Ago({ at }: { at: string | null | undefined }) {
  if (!at) return <span class="muted">never</span>;
  const moment = new Date(at);
  return (
    <time dateTime={at} title={exact.format(moment)}>
      {inWords((now.value - moment.getTime()) / 1000)}
    </time>
  );
}

/** The time of day, with the exact time behind it. */
export function Clock({ at }: { at: string }) {
  const moment = new Date(at);
  return (
    <time class="clock" dateTime={at} title={exact.format(moment)}>
      {clock.format(moment)}
    </time>
  );
}

/** A duration for people: `12 ms`, `3.4 s`, `2 min`. */
export function duration(seconds: number): string {
  if (seconds < 1) return `${Math.round(seconds * 1000)} ms`;
  if (seconds < 60) return `${seconds < 10 ? seconds.toFixed(1) : Math.round(seconds)} s`;
  return `${Math.round(seconds / 60)} min`;
}

/** A number of bytes for people. */
export function bytes(count: number): string {
  if (count < 1000) return `${count} B`;
  return count < 1_000_000 ? `${(count / 1000).toFixed(1)} kB` : `${(count / 1_000_000).toFixed(1)} MB`;
}
