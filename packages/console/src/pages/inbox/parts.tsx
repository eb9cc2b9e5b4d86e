/** The pieces that a card is made of. */
import { TriangleAlert } from 'lucide-react';
import type { ReactNode } from 'react';
import { Button } from '../../ui/button.tsx';

/** A line: what it is about, and its content. */
export function Row({ label, children }: { readonly label: string; readonly children: ReactNode }) {
  return (
    <div className="flex flex-col gap-1 px-4 py-2.5 text-sm sm:flex-row sm:gap-4">
      <dt className="w-28 shrink-0 text-muted">{label}</dt>
      <dd className="min-w-0 flex-1 break-words">{children}</dd>
    </div>
  );
}

export function Warning({ children }: { readonly children: ReactNode }) {
  return (
    <div
      role="alert"
      className="flex items-start gap-2 rounded bg-waiting-soft p-3 text-sm text-waiting"
    >
      <TriangleAlert aria-hidden size={16} className="mt-0.5 shrink-0" />
      <div className="min-w-0 break-words">{children}</div>
    </div>
  );
}

/** The call is not the one that the person has read. */
export function CallChanged({ onSeen }: { readonly onSeen: () => void }) {
  return (
    <Warning>
      <strong className="font-semibold">This call was changed while you looked at it.</strong> It is
      shown below as it would run now.{' '}
      <Button size="sm" onClick={onSeen}>
        I have seen the change
      </Button>
    </Warning>
  );
}
