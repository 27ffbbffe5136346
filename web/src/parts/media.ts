import { useEffect, useState } from 'preact/hooks';

/** Whether this media query holds now. */
export function useMedia(query: string): boolean {
  const [holds, setHolds] = useState(() => matchMedia(query).matches);
  useEffect(() => {
    const list = matchMedia(query);
    const note = () => setHolds(list.matches);
    note();
    list.addEventListener('change', note);
    return () => list.removeEventListener('change', note);
  }, [query]);
  return holds;
}
