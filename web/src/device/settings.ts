/** What this phone keeps between visits. The token has the scope `device` alone. */
export interface PhoneSettings {
  token: string;
  label: string;
  /** Tools that the person switched off. */
  off: string[];
  /** Whether the person is asked before each call of a tool that needs a permission. */
  asks: boolean;
}

const KEY = 'handspan.phone';

export function readSettings(): PhoneSettings {
  const fresh: PhoneSettings = { token: '', label: guessLabel(), off: [], asks: true };
  try {
    return { ...fresh, ...(JSON.parse(localStorage.getItem(KEY) ?? '{}') as Partial<PhoneSettings>) };
  } catch {
    return fresh; // a private window may have no storage: then it pairs anew
  }
}

export function writeSettings(settings: PhoneSettings): void {
  try {
    localStorage.setItem(KEY, JSON.stringify(settings));
  } catch {
    // the same
  }
}

/** Calls the listener when another tab has changed the settings. */
export function onSettings(listener: (settings: PhoneSettings) => void): void {
  addEventListener('storage', ({ key }) => {
    if (key === KEY) listener(readSettings());
  });
}

function guessLabel(): string {
  const agent = navigator.userAgent;
  if (/iPad/.test(agent)) return 'tablet';
  return /Android|iPhone|Mobile/.test(agent) ? 'phone' : 'browser';
}
