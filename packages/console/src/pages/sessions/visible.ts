/** Streams are closed while the tab is hidden: a browser has six connections to a server. */
import { useSyncExternalStore } from 'react';

export function useVisible(): boolean {
  return useSyncExternalStore(
    (watcher) => {
      document.addEventListener('visibilitychange', watcher);
      return () => document.removeEventListener('visibilitychange', watcher);
    },
    () => !document.hidden,
  );
}
