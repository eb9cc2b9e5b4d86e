/** What a person has chosen for this browser, in one cookie: nothing is kept in local storage. */
import { useSyncExternalStore } from 'react';

export interface Preferences {
  readonly theme: 'system' | 'light' | 'dark';
  /** Single keys as shortcuts. */
  readonly shortcuts: boolean;
  readonly notifications: boolean;
  /** The steps of the first-run checklist that only this browser can know of, or that it is not wanted. */
  readonly checklist: readonly ChecklistMark[];
}

const checklistMarks = ['timeline', 'restart', 'dismissed'] as const;
export type ChecklistMark = (typeof checklistMarks)[number];

const name = 'relay_preferences';
const defaults: Preferences = {
  theme: 'system',
  shortcuts: true,
  notifications: false,
  checklist: [],
};
const watchers = new Set<() => void>();
let current = read();

function read(): Preferences {
  const cookie = document.cookie.split('; ').find((each) => each.startsWith(`${name}=`));
  if (cookie === undefined) return defaults;
  const chosen = new URLSearchParams(decodeURIComponent(cookie.slice(name.length + 1)));
  const theme = chosen.get('theme');
  const marks = chosen.get('checklist')?.split(' ') ?? [];
  return {
    theme: theme === 'light' || theme === 'dark' ? theme : 'system',
    shortcuts: chosen.get('shortcuts') !== 'off',
    notifications: chosen.get('notifications') === 'on',
    checklist: checklistMarks.filter((mark) => marks.includes(mark)),
  };
}

export function setPreferences(change: Partial<Preferences>): void {
  current = { ...current, ...change };
  const { theme, shortcuts, notifications, checklist } = current;
  const value = new URLSearchParams({
    theme,
    shortcuts: shortcuts ? 'on' : 'off',
    notifications: notifications ? 'on' : 'off',
    checklist: checklist.join(' '),
  });
  const attributes = `path=/console; max-age=${365 * 86_400}; samesite=strict`;
  document.cookie = `${name}=${encodeURIComponent(value.toString())}; ${attributes}`;
  applyTheme();
}

/** A step that has been done stays done. */
export function markChecklist(mark: ChecklistMark): void {
  if (current.checklist.includes(mark)) return;
  setPreferences({ checklist: [...current.checklist, mark] });
}

function watch(watcher: () => void): () => void {
  watchers.add(watcher);
  return () => void watchers.delete(watcher);
}

export function usePreferences(): Preferences {
  return useSyncExternalStore(watch, () => current);
}

/** The theme that is shown. */
export function useTheme(): 'light' | 'dark' {
  return useSyncExternalStore(watch, themeOf);
}

const darkSystem = matchMedia('(prefers-color-scheme: dark)');

function themeOf(): 'light' | 'dark' {
  if (current.theme !== 'system') return current.theme;
  return darkSystem.matches ? 'dark' : 'light';
}

export function applyTheme(): void {
  document.documentElement.dataset['theme'] = themeOf();
  for (const watcher of watchers) watcher();
}

darkSystem.addEventListener('change', applyTheme);
