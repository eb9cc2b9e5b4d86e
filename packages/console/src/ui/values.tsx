/** Ids, times, durations and amounts: short on the page, complete when copied or pointed at. */
import { Check, Copy } from 'lucide-react';
import { useEffect, useState, useSyncExternalStore } from 'react';
import { cx } from './cx.ts';

/** The end of an id: the beginning of a UUIDv7 is its time, so neighbours look alike. */
export function shortId(id: string): string {
  return id.length <= 10 ? id : id.slice(-8);
}

interface CopyProps {
  /** A function if it takes time to make. */
  readonly text: string | (() => string);
  /** What is copied, such as "run id". */
  readonly label: string;
  readonly className?: string;
}

export function CopyButton({ text, label, className }: CopyProps) {
  const [isCopied, setCopied] = useState(false);
  useEffect(() => {
    if (!isCopied) return undefined;
    const timer = setTimeout(() => setCopied(false), 1_500);
    return () => clearTimeout(timer);
  }, [isCopied]);
  const Icon = isCopied ? Check : Copy;
  return (
    <button
      type="button"
      aria-label={isCopied ? `Copied the ${label}` : `Copy the ${label}`}
      title={`Copy the ${label}`}
      className={cx('rounded-sm p-1.5 text-faint hover:bg-hover hover:text-text', className)}
      onClick={(event) => {
        event.stopPropagation();
        void copyText(typeof text === 'string' ? text : text()).then(() => setCopied(true));
      }}
    >
      <Icon aria-hidden size={12} />
    </button>
  );
}

/** The clipboard is missing on pages that were served over plain HTTP. */
export async function copyText(text: string): Promise<void> {
  if (navigator.clipboard !== undefined) return navigator.clipboard.writeText(text);
  const area = document.createElement('textarea');
  area.value = text;
  document.body.append(area);
  area.select();
  document.execCommand('copy');
  area.remove();
}

export function Id({ id, label = 'id' }: { readonly id: string; readonly label?: string }) {
  return (
    <span className="inline-flex items-center font-mono text-xs text-muted">
      <span title={id}>{shortId(id)}</span>
      <CopyButton text={id} label={label} />
    </span>
  );
}

const ticks = new Set<() => void>();
let now = Date.now();
setInterval(() => {
  now = Date.now();
  for (const tick of ticks) tick();
}, 1_000);

/** The time in milliseconds, once per second. */
export function useNow(): number {
  return useSyncExternalStore(
    (tick) => {
      ticks.add(tick);
      return () => void ticks.delete(tick);
    },
    () => now,
  );
}

/** "850 ms", "12 s", "3 min 5 s", "2 h 10 min", "4 d 3 h". */
export function formatDuration(ms: number): string {
  if (ms < 1_000) return `${Math.max(0, Math.round(ms))} ms`;
  if (ms < 10_000) return `${(Math.floor(ms / 100) / 10).toString()} s`;
  const seconds = Math.floor(ms / 1_000);
  if (seconds < 60) return `${seconds} s`;
  const minutes = Math.floor(seconds / 60);
  if (minutes < 60) return joined(minutes, 'min', minutes < 10 ? seconds % 60 : 0, 's');
  const hours = Math.floor(minutes / 60);
  if (hours < 48) return joined(hours, 'h', minutes % 60, 'min');
  return joined(Math.floor(hours / 24), 'd', hours % 24, 'h');
}

function joined(large: number, largeUnit: string, small: number, smallUnit: string): string {
  return small === 0 ? `${large} ${largeUnit}` : `${large} ${largeUnit} ${small} ${smallUnit}`;
}

const dateTime = new Intl.DateTimeFormat(undefined, { dateStyle: 'medium', timeStyle: 'medium' });
const clock = new Intl.DateTimeFormat(undefined, { hour: '2-digit', minute: '2-digit' });
const day = new Intl.DateTimeFormat(undefined, { month: 'short', day: 'numeric' });

export function formatDateTime(at: string | number): string {
  return dateTime.format(new Date(at));
}

/** Today the clock, before that the day. */
export function formatTime(at: string | number): string {
  const date = new Date(at);
  const isToday = date.toDateString() === new Date().toDateString();
  return isToday ? clock.format(date) : `${day.format(date)}, ${clock.format(date)}`;
}

/** A point in time; complete when pointed at. */
export function Time({ at }: { readonly at: string | number }) {
  return (
    <time
      dateTime={new Date(at).toISOString()}
      title={formatDateTime(at)}
      className="whitespace-nowrap"
    >
      {formatTime(at)}
    </time>
  );
}

/** How long ago, counting. */
export function Ago({ at }: { readonly at: string | number }) {
  const age = useNow() - new Date(at).getTime();
  return (
    <time
      dateTime={new Date(at).toISOString()}
      title={formatDateTime(at)}
      className="whitespace-nowrap"
    >
      {age < 5_000 ? 'now' : `${formatAge(age)} ago`}
    </time>
  );
}

/** One unit is enough for an age. */
export function formatAge(ms: number): string {
  if (ms < 60_000) return `${Math.floor(ms / 1_000)} s`;
  if (ms < 3_600_000) return `${Math.floor(ms / 60_000)} min`;
  if (ms < 48 * 3_600_000) return `${Math.floor(ms / 3_600_000)} h`;
  return `${Math.floor(ms / 86_400_000)} d`;
}

const compact = new Intl.NumberFormat(undefined, { notation: 'compact', maximumFractionDigits: 1 });
const whole = new Intl.NumberFormat();

export function formatCount(count: number): string {
  return count < 10_000 ? whole.format(count) : compact.format(count);
}

export function formatCost(usd: number): string {
  if (usd === 0) return '$0';
  return usd < 0.01 ? '< $0.01' : `$${usd.toFixed(usd < 100 ? 2 : 0)}`;
}
