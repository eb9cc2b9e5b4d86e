/** The pages of the navigation. */
import {
  Activity,
  Gauge,
  Inbox,
  type LucideIcon,
  MessageSquare,
  ScrollText,
  Settings,
  ShieldCheck,
  Users,
} from 'lucide-react';

export interface Place {
  readonly path: string;
  readonly label: string;
  readonly icon: LucideIcon;
  /** Shown in the bar of a phone; the others are found by its search. */
  readonly isMain?: true;
}

export const places: readonly Place[] = [
  { path: '/inbox', label: 'Inbox', icon: Inbox, isMain: true },
  { path: '/runs', label: 'Runs', icon: Activity, isMain: true },
  { path: '/sessions', label: 'Sessions', icon: Users, isMain: true },
  { path: '/chat', label: 'Chat', icon: MessageSquare, isMain: true },
  { path: '/overview', label: 'Overview', icon: Gauge },
  { path: '/policy', label: 'Policy', icon: ShieldCheck },
  { path: '/audit', label: 'Audit', icon: ScrollText },
  { path: '/settings', label: 'Settings', icon: Settings },
];
