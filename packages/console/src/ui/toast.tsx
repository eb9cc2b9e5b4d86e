/** Says what has happened, for a few seconds. */
import { X } from 'lucide-react';
import { useSyncExternalStore } from 'react';
import { IconButton } from './button.tsx';
import { cx } from './cx.ts';

interface Shown {
  readonly id: number;
  readonly text: string;
  readonly kind: 'info' | 'error';
}

const visibleMs = 6_000;
const watchers = new Set<() => void>();
let shown: readonly Shown[] = [];
let lastId = 0;

function show(next: readonly Shown[]): void {
  shown = next;
  for (const watcher of watchers) watcher();
}

function dismiss(id: number): void {
  show(shown.filter((each) => each.id !== id));
}

export function toast(text: string, kind: Shown['kind'] = 'info'): void {
  lastId += 1;
  const id = lastId;
  show([...shown.slice(-2), { id, text, kind }]);
  // An error stays until it is dismissed: it may have been missed.
  if (kind === 'info') setTimeout(() => dismiss(id), visibleMs);
}

export function Toasts() {
  const toasts = useSyncExternalStore(
    (watcher) => {
      watchers.add(watcher);
      return () => void watchers.delete(watcher);
    },
    () => shown,
  );
  return (
    <div
      aria-live="polite"
      className="fixed right-3 bottom-16 z-50 flex w-80 max-w-[calc(100vw-24px)] flex-col gap-2 md:bottom-3"
    >
      {toasts.map(({ id, text, kind }) => (
        <div
          key={id}
          role={kind === 'error' ? 'alert' : undefined}
          className={cx(
            'flex items-start gap-2 rounded border border-line bg-surface p-2 pl-3 text-sm shadow-overlay',
            kind === 'error' && 'text-failed',
          )}
        >
          <span className="min-w-0 flex-1 py-1 break-words whitespace-pre-line">{text}</span>
          <IconButton label="Dismiss" onClick={() => dismiss(id)}>
            <X aria-hidden size={16} />
          </IconButton>
        </div>
      ))}
    </div>
  );
}
