/** Navigation, connection state and account around every page. */
import { Menu, Moon, Sun } from 'lucide-react';
import { type ReactNode, Suspense, useEffect, useState } from 'react';
import { Link, useLocation } from 'wouter';
import { useAccount } from '../api/account.tsx';
import { useConnection } from '../api/feed.ts';
import { markChecklist, setPreferences, useTheme } from '../preferences.ts';
import { Button, IconButton } from '../ui/button.tsx';
import { cx } from '../ui/cx.ts';
import { lazyPart } from '../ui/lazy-part.ts';
import { formatAge, formatTime, useNow } from '../ui/values.tsx';
import { useCounts } from './counts.ts';
import { useNotifications } from './notifications.ts';
import { type Place, places } from './places.ts';
import { useShortcuts } from './shortcuts.ts';

export function Frame({ children }: { readonly children: ReactNode }) {
  const [isPaletteOpen, setPaletteOpen] = useState(false);
  const [location] = useLocation();
  const counts = useCounts();
  useNotifications();
  useShortcuts({ 'mod+k': () => setPaletteOpen(true) });
  const isRunOpen = location.startsWith('/runs/');
  useEffect(() => {
    if (isRunOpen) markChecklist('timeline');
  }, [isRunOpen]);

  return (
    <div className="flex h-full flex-col md:flex-row">
      <a
        href="#page"
        className="sr-only z-50 rounded bg-solid px-3 py-2 text-on-solid focus:not-sr-only focus:absolute"
      >
        Skip to the page
      </a>
      <nav
        aria-label="Pages"
        className="hidden w-12 shrink-0 flex-col gap-0.5 border-r border-line bg-surface p-1.5 md:flex min-[1000px]:w-[200px]"
      >
        <div className="mb-2 flex h-9 items-center justify-between min-[1000px]:pl-2">
          <span className="hidden text-base font-semibold min-[1000px]:inline">Relay</span>
          <Button
            kind="quiet"
            size="sm"
            title="Search pages, runs and actions"
            onClick={() => setPaletteOpen(true)}
          >
            <span className="sr-only">Search </span>
            {isMac ? '⌘K' : '^K'}
          </Button>
        </div>
        {places.map((place) => (
          <NavLink key={place.path} place={place} location={location} count={counts[place.path]} />
        ))}
      </nav>
      <div className="flex min-h-0 min-w-0 flex-1 flex-col">
        <TopBar />
        <main
          id="page"
          tabIndex={-1}
          className="flex min-h-0 flex-1 flex-col overflow-hidden outline-none"
        >
          {children}
        </main>
      </div>
      <nav
        aria-label="Pages"
        className="flex shrink-0 border-t border-line bg-surface pb-[env(safe-area-inset-bottom)] md:hidden"
      >
        {places.flatMap((place) =>
          place.isMain === true ? (
            <BarLink
              key={place.path}
              place={place}
              location={location}
              count={counts[place.path]}
            />
          ) : (
            []
          ),
        )}
        <button type="button" className={barItem(false)} onClick={() => setPaletteOpen(true)}>
          <Menu aria-hidden size={20} />
          More
        </button>
      </nav>
      {isPaletteOpen ? (
        <Suspense>
          <CommandPalette onClose={() => setPaletteOpen(false)} />
        </Suspense>
      ) : null}
    </div>
  );
}

const CommandPalette = lazyPart(async () => (await import('./command-palette.tsx')).CommandPalette);

const isMac = /Mac|iP/.test(navigator.platform);

interface NavLinkProps {
  readonly place: Place;
  readonly location: string;
  readonly count: string | undefined;
}

function NavLink({ place, location, count }: NavLinkProps) {
  const { path, label, icon: Icon } = place;
  const isHere = location === path || location.startsWith(`${path}/`);
  return (
    <Link
      href={path}
      title={label}
      aria-current={isHere ? 'page' : undefined}
      className={cx(
        'relative flex h-9 items-center gap-2 rounded px-2.5 text-sm',
        isHere ? 'bg-selected font-medium text-text' : 'text-muted hover:bg-hover hover:text-text',
      )}
    >
      <Icon aria-hidden size={16} className="shrink-0" />
      <span className="sr-only min-[1000px]:not-sr-only">{label}</span>
      <Count count={count} />
    </Link>
  );
}

function Count({ count }: { readonly count: string | undefined }) {
  if (count === undefined) return null;
  return (
    <span className="absolute top-0 right-0 min-w-5 rounded-full bg-waiting-soft px-1 text-center text-xs font-semibold text-waiting min-[1000px]:static min-[1000px]:ml-auto">
      {count}
    </span>
  );
}

function barItem(isHere: boolean): string {
  return cx(
    'relative flex min-h-14 flex-1 flex-col items-center justify-center gap-0.5 text-xs',
    isHere ? 'font-medium text-text' : 'text-muted',
  );
}

function BarLink({ place, location, count }: NavLinkProps) {
  const { path, label, icon: Icon } = place;
  const isHere = location.startsWith(path);
  return (
    <Link href={path} aria-current={isHere ? 'page' : undefined} className={barItem(isHere)}>
      <Icon aria-hidden size={20} />
      {label}
      <Count count={count} />
    </Link>
  );
}

function TopBar() {
  const { data: account } = useAccount();
  const person = account?.owner ?? account?.name;
  const isDark = useTheme() === 'dark';
  return (
    <div className="flex h-10 shrink-0 items-center gap-3 border-b border-line bg-surface px-4">
      <span className="text-base font-semibold md:hidden">Relay</span>
      <div className="ml-auto flex items-center gap-3 text-sm text-muted">
        <ConnectionState />
        <Link
          href="/settings"
          className="flex h-full min-w-0 items-center gap-1.5 hover:text-text"
          title={`Signed in as ${person} to ${account?.tenant.name}. Account and settings`}
        >
          <span className="max-w-28 truncate font-medium text-text sm:max-w-40">
            {account?.tenant.name}
          </span>
          <span className="hidden max-w-40 truncate sm:inline">{person}</span>
        </Link>
        <IconButton
          label={isDark ? 'Use the light theme' : 'Use the dark theme'}
          onClick={() => setPreferences({ theme: isDark ? 'light' : 'dark' })}
        >
          {isDark ? <Sun aria-hidden size={16} /> : <Moon aria-hidden size={16} />}
        </IconButton>
      </div>
    </div>
  );
}

/** Always visible: an on-call engineer must know whether the page is up to date. */
function ConnectionState() {
  const connection = useConnection();
  switch (connection.status) {
    case 'live':
      return <State dot="bg-done-solid" word="live" />;
    case 'connecting':
      return <State dot="bg-faint" word="connecting …" />;
    case 'reconnecting':
    case 'offline':
      return (
        <State dot="bg-failed-solid" word={connection.status} isLost>
          <StateAge since={connection.since} />
        </State>
      );
  }
}

function StateAge({ since }: { readonly since: number }) {
  const now = useNow();
  return (
    <span title={`What is shown was true at ${formatTime(since)}`}>
      for {formatAge(Math.max(0, now - since))}
    </span>
  );
}

interface StateProps {
  readonly dot: string;
  readonly word: string;
  readonly isLost?: boolean;
  readonly children?: ReactNode;
}

/** Only the word is announced: an age would be, every second. */
function State({ dot, word, isLost = false, children }: StateProps) {
  return (
    <span
      className={cx(
        'inline-flex items-center gap-1.5 text-xs whitespace-nowrap',
        isLost && 'rounded-sm bg-failed-soft px-1.5 py-0.5 text-failed',
      )}
    >
      <span aria-hidden className={cx('size-2 shrink-0 rounded-full', dot)} />
      <span role="status">{word}</span>
      {children}
    </span>
  );
}
