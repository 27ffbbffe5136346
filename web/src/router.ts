import { signal } from '@preact/signals';

/** Where the page is: `#/tools/camera` is the page `tools` with the rest `['camera']`. */
export interface Route {
  page: string;
  rest: string[];
}

function read(): Route {
  const [page = '', ...rest] = location.hash.replace(/^#\/?/, '').split('/').map(decode);
  return { page: page || 'chat', rest: rest.filter(Boolean) };
}

/** A part of an address as it is meant. One that was typed by a person may have a `%` that stands for itself. */
function decode(part: string): string {
  try {
    return decodeURIComponent(part);
  } catch {
    return part;
  }
}

export const route = signal<Route>(read());
addEventListener('hashchange', () => {
  route.value = read();
});

/** The address of a page, for links: `href('tools', name)`. */
export function href(page: string, ...rest: string[]): string {
  return `#/${[page, ...rest].map(encodeURIComponent).join('/')}`;
}

/** Goes there; `replace` leaves no step to come back to. */
export function go(page: string, rest: string[] = [], { replace = false } = {}): void {
  const to = href(page, ...rest);
  if (!replace) location.hash = to;
  else {
    history.replaceState(null, '', to);
    route.value = read();
  }
}
