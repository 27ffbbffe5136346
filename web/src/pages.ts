import type { ComponentType } from 'preact';
import type { IconName } from './parts/icon.tsx';

/** What a page gets: the rest of its address (`#/tools/camera` → `['camera']`). */
export interface PageProps {
  rest: string[];
}

/** One page: its place in the navigation, and the file that is loaded when it is opened. */
export interface PageEntry {
  /** Its address: `#/id`. */
  id: string;
  title: string;
  icon: IconName;
  /** Whether a phone shows it in the bar below; the others are in the menu. */
  isTab?: boolean;
  /** Only shown to a browser that is signed in with the scope `admin`. */
  needsAdmin?: boolean;
  load: () => Promise<{ Page: ComponentType<PageProps> }>;
}

/** Every page, in the order of the navigation. A new page is one file in `pages/` and one line here. */
export const PAGES: PageEntry[] = [
  { id: 'chat', title: 'Chat', icon: 'chat', isTab: true, load: () => import('./chat/chat.tsx') },
  { id: 'questions', title: 'Questions', icon: 'question', isTab: true, load: () => import('./pages/questions.tsx') },
  { id: 'tools', title: 'Tools', icon: 'tool', isTab: true, load: () => import('./pages/tools.tsx') },
  { id: 'agents', title: 'Agents', icon: 'agent', load: () => import('./pages/agents.tsx') },
  { id: 'models', title: 'Models', icon: 'model', isTab: true, load: () => import('./pages/models.tsx') },
  { id: 'journal', title: 'Journal', icon: 'journal', load: () => import('./pages/journal.tsx') },
  { id: 'devices', title: 'Devices', icon: 'device', load: () => import('./pages/devices.tsx') },
  { id: 'mcp', title: 'MCP servers', icon: 'mcp', load: () => import('./pages/mcp.tsx') },
  { id: 'skills', title: 'Skills', icon: 'skill', load: () => import('./pages/skills.tsx') },
  { id: 'artifacts', title: 'Artifacts', icon: 'artifact', load: () => import('./pages/artifacts.tsx') },
  { id: 'tokens', title: 'Tokens', icon: 'token', needsAdmin: true, load: () => import('./pages/tokens.tsx') },
];
