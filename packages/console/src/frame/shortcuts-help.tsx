import type { ReactNode } from 'react';
import { Link } from 'wouter';
import { Kbd } from '../ui/layout.tsx';
import { Dialog } from '../ui/overlay.tsx';

interface ShortcutsHelpProps {
  /** Keys, and what they do. */
  readonly shortcuts: readonly (readonly [string, string])[];
  readonly children?: ReactNode;
  readonly onClose: () => void;
}

/** The shortcuts of a page. */
export function ShortcutsHelp({ shortcuts, children, onClose }: ShortcutsHelpProps) {
  return (
    <Dialog open onOpenChange={onClose} title="Shortcuts" width="sm">
      <dl className="flex flex-col gap-2 text-sm">
        {[...shortcuts, ['?', 'This help'] as const].map(([key, text]) => (
          <div key={key} className="flex items-center justify-between gap-4">
            <dt>{text}</dt>
            <dd>
              <Kbd>{key}</Kbd>
            </dd>
          </div>
        ))}
      </dl>
      <p className="mt-4 text-xs text-muted">
        {children} Single keys can be turned off in{' '}
        <Link href="/settings" className="underline">
          Settings
        </Link>
        .
      </p>
    </Dialog>
  );
}
