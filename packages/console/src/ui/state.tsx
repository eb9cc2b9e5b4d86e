/** States: a colour, an icon and a word, never a colour alone. */
import {
  Ban,
  CircleCheck,
  CircleDashed,
  CircleX,
  Clock,
  Hand,
  LoaderCircle,
  type LucideIcon,
  Pause,
  Unplug,
} from 'lucide-react';
import type { ReactNode } from 'react';
import { cx } from './cx.ts';

export type Tone = 'ended' | 'working' | 'waiting' | 'failed' | 'done';

const tones: Readonly<Record<Tone, string>> = {
  ended: 'text-ended bg-ended-soft',
  working: 'text-working bg-working-soft',
  waiting: 'text-waiting bg-waiting-soft',
  failed: 'text-failed bg-failed-soft',
  done: 'text-done bg-done-soft',
};

export const toneText: Readonly<Record<Tone, string>> = {
  ended: 'text-ended',
  working: 'text-working',
  waiting: 'text-waiting',
  failed: 'text-failed',
  done: 'text-done',
};

interface BadgeProps {
  readonly tone: Tone;
  readonly icon?: LucideIcon;
  readonly children: ReactNode;
  readonly title?: string;
}

export function Badge({ tone, icon: Icon, children, title }: BadgeProps) {
  return (
    <span
      title={title}
      className={cx(
        'inline-flex h-5 items-center gap-1 rounded-sm px-1.5 text-xs font-medium whitespace-nowrap',
        tones[tone],
      )}
    >
      {Icon === undefined ? null : <Icon aria-hidden size={12} className="shrink-0" />}
      {children}
    </span>
  );
}

interface StateLook {
  readonly tone: Tone;
  readonly icon: LucideIcon;
  readonly label: string;
}

/** Statuses of runs, approvals, sessions, deliveries and webhooks, by their wire names. */
const looks: Readonly<Record<string, StateLook>> = {
  queued: { tone: 'ended', icon: CircleDashed, label: 'Queued' },
  running: { tone: 'working', icon: LoaderCircle, label: 'Running' },
  waiting: { tone: 'waiting', icon: Hand, label: 'Waiting' },
  completed: { tone: 'done', icon: CircleCheck, label: 'Completed' },
  failed: { tone: 'failed', icon: CircleX, label: 'Failed' },
  canceled: { tone: 'ended', icon: Ban, label: 'Canceled' },
  pending: { tone: 'waiting', icon: Hand, label: 'Pending' },
  approved: { tone: 'done', icon: CircleCheck, label: 'Approved' },
  denied: { tone: 'failed', icon: Ban, label: 'Denied' },
  expired: { tone: 'ended', icon: Clock, label: 'Expired' },
  closed: { tone: 'ended', icon: Ban, label: 'Closed' },
  starting: { tone: 'working', icon: LoaderCircle, label: 'Starting' },
  active: { tone: 'working', icon: LoaderCircle, label: 'Working' },
  idle: { tone: 'ended', icon: CircleDashed, label: 'Idle' },
  blocked: { tone: 'waiting', icon: Hand, label: 'Blocked' },
  paused: { tone: 'ended', icon: Pause, label: 'Paused' },
  releasing: { tone: 'ended', icon: LoaderCircle, label: 'Ending' },
  released: { tone: 'ended', icon: Ban, label: 'Ended' },
  offline: { tone: 'failed', icon: Unplug, label: 'Offline' },
};

export function lookOf(status: string): StateLook {
  return looks[status] ?? { tone: 'ended', icon: CircleDashed, label: status };
}

export function StatusBadge({
  status,
  title,
}: {
  readonly status: string;
  readonly title?: string;
}) {
  const { tone, icon, label } = lookOf(status);
  return (
    <Badge tone={tone} icon={icon} {...(title === undefined ? {} : { title })}>
      {label}
    </Badge>
  );
}

/** How long keys and grants hold. */
const validities = {
  active: { tone: 'done', icon: CircleCheck, label: 'Active' },
  revoked: { tone: 'ended', icon: Ban, label: 'Revoked' },
  expired: { tone: 'ended', icon: Clock, label: 'Expired' },
  used: { tone: 'ended', icon: CircleCheck, label: 'Used up' },
} as const satisfies Readonly<Record<string, StateLook>>;

export function ValidityBadge({ status }: { readonly status: keyof typeof validities }) {
  const { tone, icon, label } = validities[status];
  return (
    <Badge tone={tone} icon={icon}>
      {label}
    </Badge>
  );
}
