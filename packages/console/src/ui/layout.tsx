/** The parts of a page. */
import { ArrowLeft } from 'lucide-react';
import type { ReactNode } from 'react';
import { Link } from 'wouter';
import { cx } from './cx.ts';

interface PageHeaderProps {
  readonly title: ReactNode;
  readonly children?: ReactNode;
}

/** The title of a page, with its actions at the end of the line. */
export function PageHeader({ title, children }: PageHeaderProps) {
  return (
    <header className="flex min-h-12 flex-wrap items-center gap-x-3 gap-y-1 border-b border-line px-4 py-1.5">
      <h1 className="min-w-0 text-lg font-semibold">{title}</h1>
      <div className="ml-auto flex flex-wrap items-center gap-2">{children}</div>
    </header>
  );
}

interface SplitProps {
  readonly list: ReactNode;
  /** Left out if nothing is selected. */
  readonly detail: ReactNode | undefined;
  /** In place of the detail, where there is room for both. */
  readonly placeholder: ReactNode;
  /** The address of the list, for the way back on a phone. */
  readonly back: string;
}

/** List and detail side by side from 900 px; below that the detail is a page of its own. */
export function Split({ list, detail, placeholder, back }: SplitProps) {
  const isOpen = detail !== undefined;
  return (
    <div className="flex min-h-0 flex-1">
      <div
        className={cx(
          'min-h-0 min-w-0 flex-1 flex-col min-[900px]:flex min-[900px]:max-w-[420px] min-[900px]:border-r',
          isOpen ? 'hidden' : 'flex',
        )}
      >
        {list}
      </div>
      <div
        className={cx(
          'min-h-0 min-w-0 flex-[2] flex-col min-[900px]:flex',
          isOpen ? 'flex' : 'hidden',
        )}
      >
        {isOpen ? (
          <>
            <Link
              href={back}
              className="flex min-h-11 items-center gap-1 border-b border-line px-3 text-sm text-muted min-[900px]:hidden"
            >
              <ArrowLeft aria-hidden size={16} /> Back
            </Link>
            {detail}
          </>
        ) : (
          placeholder
        )}
      </div>
    </div>
  );
}

/** A group of values with a heading. */
export function Section({
  title,
  children,
  actions,
}: {
  readonly title: string;
  readonly children: ReactNode;
  readonly actions?: ReactNode;
}) {
  return (
    <section className="rounded border border-line bg-surface">
      <header className="flex min-h-10 items-center justify-between gap-2 border-b border-line px-4 py-1.5">
        <h2 className="text-sm font-semibold">{title}</h2>
        {actions}
      </header>
      <div className="p-4">{children}</div>
    </section>
  );
}

export function Kbd({ children }: { readonly children: ReactNode }) {
  return (
    <kbd className="inline-flex h-4 min-w-4 items-center justify-center rounded-sm border border-current px-1 font-mono text-xs opacity-70 pointer-coarse:hidden">
      {children}
    </kbd>
  );
}
