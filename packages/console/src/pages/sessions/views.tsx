/** What the board and the channels have in common. */
import { Bot, CodeXml, Plug, SquareTerminal, User } from 'lucide-react';
import type { Session } from '@relay/sdk';
import { Link } from 'wouter';
import { cx } from '../../ui/cx.ts';
import { hasTerminal } from './abilities.ts';

const views = [
  { view: 'board', label: 'Board', href: '/sessions' },
  { view: 'channels', label: 'Channels', href: '/sessions?view=channels' },
] as const;

export function ViewSwitch({ view }: { readonly view: (typeof views)[number]['view'] }) {
  return (
    <nav aria-label="Views" className="flex rounded border border-line-strong p-px">
      {views.map(({ view: each, label, href }) => (
        <Link
          key={each}
          href={href}
          aria-current={each === view ? 'page' : undefined}
          className={cx(
            'flex h-7 items-center rounded-sm px-2.5 text-sm pointer-coarse:h-11',
            each === view ? 'bg-selected font-medium' : 'text-muted hover:bg-hover',
          )}
        >
          {label}
        </Link>
      ))}
    </nav>
  );
}

/** What a session is. The name of its harness stands beside it. */
export function HarnessIcon({ session }: { readonly session: Session }) {
  const Icon = iconOf(session);
  return <Icon aria-hidden size={16} className="shrink-0 text-muted" />;
}

function iconOf(session: Session) {
  if (session.harness === 'native') return Bot;
  if (session.identity.kind === 'human') return User;
  if (hasTerminal(session)) return SquareTerminal;
  return session.harness === 'remote' ? Plug : CodeXml;
}

/** A session can be given a title by the label `title`. */
export function titleOf({ labels, identity, harness }: Session): string | undefined {
  const title = labels['title'];
  if (title !== undefined && title !== '') return title;
  const isTelling = identity.name !== identity.handle && identity.name !== harness;
  return isTelling ? identity.name : undefined;
}

/** The kind of a session in words: its harness, and the agent and model of it. */
export function kindOf({ harness, agent, model, workspace }: Session): string {
  const folder = workspace === '.' ? undefined : workspace;
  return [harness, agent, model, folder].filter((part) => part !== undefined).join(' · ');
}
