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

/** Every page, in the order of the navigation. A new page is one folder and one line here. */
export const PAGES: PageEntry[] = [
  { id: 'chat', title: 'Chat', icon: 'chat', isTab: true, load: () => import('./chat/chat.tsx') },
  {
    id: 'questions',
    title: 'Questions',
    icon: 'question',
    isTab: true,
    load: () => import('./questions/questions.tsx'),
  },
  { id: 'tools', title: 'Tools', icon: 'tool', isTab: true, load: () => import('./tools/tools.tsx') },
  { id: 'agents', title: 'Agents', icon: 'agent', load: () => import('./agents/agents.tsx') },
  { id: 'models', title: 'Models', icon: 'model', isTab: true, load: () => import('./models/models.tsx') },
  { id: 'journal', title: 'Journal', icon: 'journal', load: () => import('./journal/journal.tsx') },
  { id: 'schedules', title: 'Schedules', icon: 'clock', load: () => import('./schedules/schedules.tsx') },
  { id: 'devices', title: 'Devices', icon: 'device', load: () => import('./devices/devices.tsx') },
  { id: 'mcp', title: 'MCP servers', icon: 'mcp', load: () => import('./mcp/mcp.tsx') },
  { id: 'skills', title: 'Skills', icon: 'skill', load: () => import('./skills/skills.tsx') },
  { id: 'artifacts', title: 'Artifacts', icon: 'artifact', load: () => import('./artifacts/artifacts.tsx') },
  { id: 'tokens', title: 'Tokens', icon: 'token', needsAdmin: true, load: () => import('./tokens/tokens.tsx') },
];
