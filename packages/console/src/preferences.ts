/** What a person has chosen for this browser, in one cookie: nothing is kept in local storage. */
import { useSyncExternalStore } from 'react';

export interface Preferences {
  readonly theme: 'system' | 'light' | 'dark';
  /** Single keys as shortcuts. */
  readonly shortcuts: boolean;
  readonly notifications: boolean;
}

const name = 'relay_preferences';
const defaults: Preferences = { theme: 'system', shortcuts: true, notifications: false };
const watchers = new Set<() => void>();
let current = read();

function read(): Preferences {
  const cookie = document.cookie.split('; ').find((each) => each.startsWith(`${name}=`));
  if (cookie === undefined) return defaults;
  const chosen = new URLSearchParams(decodeURIComponent(cookie.slice(name.length + 1)));
  const theme = chosen.get('theme');
  return {
    theme: theme === 'light' || theme === 'dark' ? theme : 'system',
    shortcuts: chosen.get('shortcuts') !== 'off',
    notifications: chosen.get('notifications') === 'on',
  };
}

export function setPreferences(change: Partial<Preferences>): void {
  current = { ...current, ...change };
  const { theme, shortcuts, notifications } = current;
  const value = new URLSearchParams({
    theme,
    shortcuts: shortcuts ? 'on' : 'off',
    notifications: notifications ? 'on' : 'off',
  });
  const attributes = `path=/console; max-age=${365 * 86_400}; samesite=strict`;
  document.cookie = `${name}=${encodeURIComponent(value.toString())}; ${attributes}`;
  applyTheme();
  for (const watcher of watchers) watcher();
}

export function usePreferences(): Preferences {
  return useSyncExternalStore(
    (watcher) => {
      watchers.add(watcher);
      return () => void watchers.delete(watcher);
    },
    () => current,
  );
}

const darkSystem = matchMedia('(prefers-color-scheme: dark)');

export function applyTheme(): void {
  const isDark = current.theme === 'dark' || (current.theme === 'system' && darkSystem.matches);
  document.documentElement.dataset['theme'] = isDark ? 'dark' : 'light';
}

darkSystem.addEventListener('change', applyTheme);
