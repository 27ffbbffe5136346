const PATHS = {
  agent: 'M12 3v3M6 9h12v9H6zM9.5 13h.01M14.5 13h.01M3 12v3M21 12v3',
  alert: 'M12 4 2.5 20h19zM12 10v4M12 17h.01',
  arrow_down: 'M12 5v14M6 13l6 6 6-6',
  arrow_up: 'M12 19V5M6 11l6-6 6 6',
  artifact: 'M7 3h7l5 5v13H7zM14 3v5h5',
  attach: 'M20 11.5 12 19.5a5 5 0 0 1-7-7l8.5-8.5a3.3 3.3 0 0 1 4.7 4.7L9.7 17.2a1.7 1.7 0 0 1-2.4-2.4l7.7-7.7',
  bell: 'M6 16v-5a6 6 0 0 1 12 0v5l2 2H4zM10 21h4',
  camera: 'M4 8h4l1.5-3h5L16 8h4v11H4zM12 17a3.5 3.5 0 1 0 0-7 3.5 3.5 0 0 0 0 7',
  chat: 'M4 5h16v11H9l-5 4z',
  check: 'm5 12.5 4.5 4.5L19 7.5',
  chevron: 'm9 6 6 6-6 6',
  clock: 'M12 21a9 9 0 1 0 0-18 9 9 0 0 0 0 18M12 7.5V12l3 2',
  close: 'M6 6l12 12M18 6 6 18',
  compact: 'M4 8h16M4 12h16M4 16h16',
  copy: 'M9 9h11v11H9zM5 15H4V4h11v1',
  detailed: 'M4 5h16v5H4zM4 14h16v5H4z',
  device: 'M7 3h10v18H7zM11 18h2',
  download: 'M12 4v11M7 11l5 5 5-5M5 20h14',
  edit: 'm4 20 1-5L16 4l4 4L9 19z',
  folder: 'M3 6h7l2 2h9v11H3z',
  journal: 'M5 4h14v16H5zM9 8h6M9 12h6M9 16h3',
  leave: 'M14 4H5v16h9M10 12h11M17 8l4 4-4 4',
  mcp: 'M8 4v5M16 4v5M5 9h14v3a7 7 0 0 1-14 0zM12 19v2',
  menu: 'M4 7h16M4 12h16M4 17h16',
  model: 'M12 3l2.2 5.8L20 11l-5.8 2.2L12 19l-2.2-5.8L4 11l5.8-2.2zM19 16v5M16.5 18.5h5',
  more: 'M5 12.5a.5.5 0 1 0 0-1 .5.5 0 0 0 0 1M12 12.5a.5.5 0 1 0 0-1 .5.5 0 0 0 0 1M19 12.5a.5.5 0 1 0 0-1 .5.5 0 0 0 0 1',
  plus: 'M12 5v14M5 12h14',
  question: 'M12 21a9 9 0 1 0 0-18 9 9 0 0 0 0 18M9.5 9.5a2.5 2.5 0 1 1 3.5 2.3c-.8.4-1 .9-1 1.7M12 17h.01',
  redo: 'M20 6v5h-5M19.5 11A8 8 0 1 0 20 14.5',
  search: 'M11 18a7 7 0 1 0 0-14 7 7 0 0 0 0 14M16 16l5 5',
  shield: 'M12 3 5 6v5c0 5 3 8 7 10 4-2 7-5 7-10V6z',
  skill: 'M12 3 3 8l9 5 9-5zM3 13l9 5 9-5',
  stop: 'M7 7h10v10H7z',
  token: 'M8 16a4 4 0 1 1 3.5-6H21v4h-2v3h-3v-3h-4.5A4 4 0 0 1 8 16',
  tool: 'M14.5 6.5a4 4 0 0 0 5 5l-9 9-4-4zM5 5l4 4',
  trash: 'M5 7h14M10 7V4h4v3M7 7l1 13h8l1-13',
  archive: 'M4 5h16v4H4zM6 9v11h12V9M10 13h4',
  at: 'M12 16a4 4 0 1 0 0-8 4 4 0 0 0 0 8M16 8v5.5a2.5 2.5 0 0 0 5 0V12a9 9 0 1 0-3.5 7.1',
  pin: 'M12 15v6M7 15h10l-2-4V4h1M9 4H8M9 4h6M9 4v7l-2 4',
  usage: 'M5 20V11M12 20V4M19 20v-6',
  wrap: 'M4 6h16M4 12h13a3 3 0 0 1 0 6h-4M15 15.5 12.5 18l2.5 2.5M4 18h5',
} as const;

export type IconName = keyof typeof PATHS;

/** A small drawing. It says nothing to a screen reader: what stands beside it does. */
export function Icon({ name, class: more = '' }: { name: IconName; class?: string }) {
  return (
    <svg class={`icon ${more}`} viewBox="0 0 24 24" aria-hidden="true">
      <path d={PATHS[name]} />
    </svg>
  );
}
