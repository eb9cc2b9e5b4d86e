/** The parts of a page. */
import { ArrowLeft } from 'lucide-react';
import { type ReactNode, useEffect, useRef } from 'react';
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
      <div className="ml-auto flex min-w-0 flex-wrap items-center gap-2">{children}</div>
    </header>
  );
}

/** What scrolls below the header of a page, no wider than what is read well. */
export function PageBody({ children }: { readonly children: ReactNode }) {
  return (
    <div className="min-h-0 flex-1 overflow-y-auto">
      <div className="mx-auto flex w-full max-w-5xl flex-col gap-4 p-4">{children}</div>
    </div>
  );
}

interface Tab {
  readonly href: string;
  readonly label: ReactNode;
  readonly isHere: boolean;
}

/** The parts of a page that have addresses of their own. */
export function Tabs({ label, tabs }: { readonly label: string; readonly tabs: readonly Tab[] }) {
  const nav = useRef<HTMLElement>(null);
  const here = tabs.find(({ isHere }) => isHere)?.href;
  useEffect(() => {
    // On a phone it may be beyond the edge.
    nav.current
      ?.querySelector('[aria-current]')
      ?.scrollIntoView({ inline: 'center', block: 'nearest' });
  }, [here]);
  return (
    <nav
      ref={nav}
      aria-label={label}
      className="flex shrink-0 gap-1 overflow-x-auto border-b border-line px-3"
    >
      {tabs.map(({ href, label: text, isHere }) => (
        <Link
          key={href}
          href={href}
          aria-current={isHere ? 'page' : undefined}
          className={cx(
            '-mb-px flex h-9 shrink-0 items-center border-b-2 px-2 text-sm whitespace-nowrap pointer-coarse:h-11',
            isHere
              ? 'border-text font-medium text-text'
              : 'border-transparent text-muted hover:text-text',
          )}
        >
          {text}
        </Link>
      ))}
    </nav>
  );
}

/** Names and values, one below the other. What has no value is left out. */
export function Facts({
  facts,
}: {
  readonly facts: readonly (readonly [name: string, value: ReactNode])[];
}) {
  return (
    <dl className="grid min-w-0 grid-cols-[minmax(96px,max-content)_minmax(0,1fr)] gap-x-4 gap-y-1.5 text-sm">
      {facts.map(([name, value]) =>
        value === undefined || value === null ? null : (
          <div key={name} className="contents">
            <dt className="text-muted">{name}</dt>
            <dd className="min-w-0 break-words">{value}</dd>
          </div>
        ),
      )}
    </dl>
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
