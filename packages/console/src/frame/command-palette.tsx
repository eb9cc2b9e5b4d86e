/** Finds pages, runs, conversations, sessions, agents and actions. */
import { useQuery } from '@tanstack/react-query';
import { useState } from 'react';
import { useLocation } from 'wouter';
import { useAgents } from '../api/catalog.ts';
import { client } from '../api/client.ts';
import { setPreferences } from '../preferences.ts';
import { SafeText } from '../text/safe-text.tsx';
import { cx } from '../ui/cx.ts';
import { Input } from '../ui/form.tsx';
import { Dialog } from '../ui/overlay.tsx';
import { lookOf } from '../ui/state.tsx';
import { shortId } from '../ui/values.tsx';
import { places } from './places.ts';
import { signOut } from './sign-out.ts';

interface Entry {
  readonly kind: string;
  readonly label: string;
  /** Found by it too, such as an id. */
  readonly also?: string;
  readonly note?: string;
  readonly select: () => void;
}

const mostShown = 30;

export function CommandPalette({ onClose }: { readonly onClose: () => void }) {
  const [text, setText] = useState('');
  const [at, setAt] = useState(0);
  const all = useEntries();
  // Not deferred: Enter right after the last letter must choose what the text says.
  const wanted = text.trim().toLowerCase();
  const found = all.filter((entry) => matches(entry, wanted)).slice(0, mostShown);
  const selected = Math.min(at, found.length - 1);
  const choose = (entry: Entry | undefined) => {
    if (entry === undefined) return;
    onClose();
    entry.select();
  };
  const onKeyDown = (key: string): boolean => {
    if (key === 'ArrowDown') setAt(Math.min(selected + 1, found.length - 1));
    else if (key === 'ArrowUp') setAt(Math.max(selected - 1, 0));
    else if (key === 'Enter') choose(found[selected]);
    else return false;
    return true;
  };
  return (
    <Dialog open onOpenChange={onClose} title="Go to">
      <Input
        autoFocus
        role="combobox"
        aria-label="Search pages, runs, sessions, agents and actions"
        aria-expanded
        aria-controls="palette-entries"
        aria-activedescendant={`palette-${selected}`}
        placeholder="A page, run, session, agent or action"
        autoComplete="off"
        spellCheck={false}
        value={text}
        onChange={(event) => {
          setText(event.target.value);
          setAt(0);
        }}
        onKeyDown={(event) => {
          if (onKeyDown(event.key)) event.preventDefault();
        }}
      />
      <ul id="palette-entries" role="listbox" aria-label="Found" className="mt-2 min-h-72">
        {found.map((entry, index) => (
          <li
            key={index}
            id={`palette-${index}`}
            role="option"
            aria-selected={index === selected}
            ref={(item) => {
              if (index === selected) item?.scrollIntoView({ block: 'nearest' });
            }}
            className={cx(
              'flex h-9 cursor-default items-center gap-3 rounded px-2 text-sm pointer-coarse:h-11',
              index === selected && 'bg-selected',
            )}
            onPointerMove={() => setAt(index)}
            onClick={() => choose(entry)}
          >
            <span className="w-24 shrink-0 text-xs text-muted">{entry.kind}</span>
            <span className="min-w-0 flex-1 truncate">
              <SafeText text={entry.label} maxLength={200} />
            </span>
            <span className="shrink-0 text-xs text-muted">{entry.note}</span>
          </li>
        ))}
        {found.length === 0 ? (
          <li role="presentation" className="p-2 text-sm text-muted">
            Nothing is found by these words. Runs and conversations are searched among the latest
            100.
          </li>
        ) : null}
      </ul>
    </Dialog>
  );
}

/** Every word must be found. */
function matches({ kind, label, also = '' }: Entry, wanted: string): boolean {
  const searched = `${kind} ${label} ${also}`.toLowerCase();
  return wanted.split(/\s+/).every((word) => searched.includes(word));
}

function useEntries(): Entry[] {
  const [, navigate] = useLocation();
  const latest = { limit: 100 };
  const runs = useQuery({
    queryKey: ['runs', 'palette'],
    queryFn: ({ signal }) => client.runs.list(latest, { signal }).page(),
  });
  const conversations = useQuery({
    queryKey: ['conversations', 'palette'],
    queryFn: ({ signal }) => client.conversations.list(latest, { signal }).page(),
  });
  const sessions = useQuery({
    queryKey: ['sessions', 'palette'],
    queryFn: ({ signal }) => client.sessions.list(latest, { signal }).page(),
  });
  const agents = useAgents();
  const to = (path: string) => () => navigate(path);
  /** A run is known by what was asked for first. */
  const titles = new Map(conversations.data?.items.map(({ id, title }) => [id, title]));
  return [
    ...places.map(({ path, label }) => ({ kind: 'Page', label, select: to(path) })),
    ...(sessions.data?.items ?? []).map(({ id, identity, status }) => ({
      kind: 'Session',
      label: `@${identity.handle}`,
      also: id,
      note: lookOf(status).label,
      select: to(`/sessions/${id}`),
    })),
    ...(agents.data ?? []).map(({ name }) => ({
      kind: 'Chat with',
      label: name,
      select: to(`/chat?agent=${encodeURIComponent(name)}`),
    })),
    ...(conversations.data?.items ?? []).map(({ id, title }) => ({
      kind: 'Conversation',
      label: title ?? shortId(id),
      also: id,
      select: to(`/chat/${id}`),
    })),
    ...(runs.data?.items ?? []).map(({ id, agent, status, conversationId }) => ({
      kind: 'Run',
      label: `${titles.get(conversationId) ?? shortId(id)} · ${agent}`,
      also: id,
      note: lookOf(status).label,
      select: to(`/runs/${id}`),
    })),
    {
      kind: 'Action',
      label: 'Use the light theme',
      select: () => setPreferences({ theme: 'light' }),
    },
    {
      kind: 'Action',
      label: 'Use the dark theme',
      select: () => setPreferences({ theme: 'dark' }),
    },
    {
      kind: 'Action',
      label: 'Use the theme of the system',
      select: () => setPreferences({ theme: 'system' }),
    },
    { kind: 'Action', label: 'Sign out', select: () => void signOut() },
  ];
}
