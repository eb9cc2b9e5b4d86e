/** Keyboard shortcuts: single keys, which a person can turn off, and `mod` with a key, which always work. */
import { useEffect, useRef } from 'react';
import { usePreferences } from '../preferences.ts';

/** Keyed by `j`, `?`, `Enter` or `mod+k` (the Command key on a Mac, else Ctrl). */
export type Shortcuts = Readonly<Record<string, (event: KeyboardEvent) => void>>;

/** Active while the component is shown; the one that was shown last comes first. */
export function useShortcuts(shortcuts: Shortcuts): void {
  const { shortcuts: areSingleKeysOn } = usePreferences();
  const latest = useRef(shortcuts);
  latest.current = shortcuts;
  useEffect(() => {
    const onKeyDown = (event: KeyboardEvent) => {
      if (event.defaultPrevented || event.altKey || event.isComposing) return;
      const isMod = event.ctrlKey || event.metaKey;
      if (!isMod && (!areSingleKeysOn || isTyping(event.target, event.key))) return;
      const action = latest.current[isMod ? `mod+${event.key.toLowerCase()}` : event.key];
      if (action === undefined) return;
      event.preventDefault();
      action(event);
    };
    document.addEventListener('keydown', onKeyDown);
    return () => document.removeEventListener('keydown', onKeyDown);
  }, [areSingleKeysOn]);
}

const typed =
  'input:not([type=checkbox]), textarea, select, [role=dialog], [role=alertdialog], [role=menu]';

/** Keys belong to the field, the open dialog or the menu that has the focus, Enter to a link or a button. */
function isTyping(target: EventTarget | null, key: string): boolean {
  if (!(target instanceof HTMLElement)) return false;
  if (target.isContentEditable) return true;
  return target.closest(key === 'Enter' ? `${typed}, a, button, summary` : typed) !== null;
}
