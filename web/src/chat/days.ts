import type { SessionView } from 'handspan/rest';

const DAY = 86_400_000;
const day = new Intl.DateTimeFormat('en', { weekday: 'long', day: 'numeric', month: 'long', year: 'numeric' });
const month = new Intl.DateTimeFormat('en', { month: 'long', year: 'numeric' });

/** Sessions by the day on which they were active last, the newest first: today, yesterday, this week, months. */
export function byDay(sessions: SessionView[], now = new Date()): [string, SessionView[]][] {
  const groups = new Map<string, SessionView[]>();
  for (const session of sessions) {
    const name = nameOfDay(new Date(session.last_activity), now);
    groups.set(name, [...(groups.get(name) ?? []), session]);
  }
  return [...groups];
}

function nameOfDay(at: Date, now: Date): string {
  const days = Math.round((midnight(now) - midnight(at)) / DAY);
  if (days <= 0) return 'Today';
  if (days === 1) return 'Yesterday';
  if (days <= 7) return 'The last seven days';
  return month.format(at);
}

/** The day of a message for people: today, yesterday, or its date. */
export function titleOfDay(at: Date, now = new Date()): string {
  const name = nameOfDay(at, now);
  return name === 'Today' || name === 'Yesterday' ? name : day.format(at);
}

function midnight(at: Date): number {
  return new Date(at.getFullYear(), at.getMonth(), at.getDate()).getTime();
}
