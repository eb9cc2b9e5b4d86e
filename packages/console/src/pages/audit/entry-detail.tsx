/** Everything that one entry records. */
import type { AuditEntry } from '@relay/protocol/wire';
import type { ReactNode } from 'react';
import { Link } from 'wouter';
import { Person } from '../../api/people.tsx';
import { SafeText } from '../../text/safe-text.tsx';
import { Facts, Section } from '../../ui/layout.tsx';
import { CopyButton, formatDateTime, Id } from '../../ui/values.tsx';
import { actionWords, actorName } from './words.ts';

/** Pages of what entries name by an id. */
const pages: Readonly<Record<string, string>> = {
  runId: '/runs/',
  approvalId: '/inbox/',
  sessionId: '/sessions/',
  conversationId: '/chat/',
  grantId: '/policy/grants?grant=',
};

export function EntryDetail({ entry }: { readonly entry: AuditEntry }) {
  const { id, seq, at, who, action, what, why, hash } = entry;
  return (
    <div className="flex min-h-0 flex-1 flex-col gap-4 overflow-y-auto p-4">
      <h2 className="text-base font-semibold">{actionWords[action]}</h2>
      <Section title="Who and when">
        <Facts
          facts={[
            ['Actor', <Person key="who" id={actorName(who)} />],
            ['Key or rule', <SafeText key="name" text={`${who.name} (${who.type})`} />],
            ['Role', who.role],
            [
              'Actor id',
              <span key="id" className="inline-flex flex-wrap items-center gap-2">
                <Id id={who.id} label="actor id" />
                <Link
                  href={`/audit?actor=${encodeURIComponent(who.id)}`}
                  className="text-xs underline"
                >
                  All of this actor
                </Link>
              </span>,
            ],
            ['Time', formatDateTime(at)],
            ['Why', why === undefined ? undefined : <SafeText text={why} />],
          ]}
        />
      </Section>
      <Section title="What">
        {Object.keys(what).length === 0 ? (
          <p className="text-sm text-muted">Nothing else was recorded.</p>
        ) : (
          <Facts
            facts={Object.entries(what).map(([name, value]) => [
              name,
              <Fact key={name} name={name} value={value} />,
            ])}
          />
        )}
      </Section>
      <Section title="Record">
        <Facts
          facts={[
            [
              'Action',
              <code key="action" className="font-mono text-xs">
                {action}
              </code>,
            ],
            ['Number', seq],
            ['Id', <Id key="id" id={id} label="entry id" />],
            [
              'Hash',
              <span key="hash" className="font-mono text-xs break-all">
                {hash}
                <CopyButton text={hash} label="hash" />
              </span>,
            ],
          ]}
        />
      </Section>
    </div>
  );
}

/** Facts that are the id of a key. */
const keyFacts: ReadonlySet<string> = new Set(['keyId', 'owner', 'replaces', 'parent']);

interface FactProps {
  readonly name: string;
  readonly value: AuditEntry['what'][string] | undefined;
}

function Fact({ name, value }: FactProps): ReactNode {
  if (value === undefined || value === null || (Array.isArray(value) && value.length === 0)) {
    return <span className="text-muted">none</span>;
  }
  if (typeof value === 'number' && name.endsWith('At')) return formatDateTime(value);
  if (typeof value !== 'string') {
    return <SafeText text={Array.isArray(value) ? value.join(', ') : String(value)} />;
  }
  const page = pages[name];
  if (page !== undefined) {
    return (
      <span className="inline-flex flex-wrap items-center gap-x-2">
        <Link
          href={`${page}${encodeURIComponent(value)}`}
          className="font-mono text-xs break-all underline"
        >
          {value}
        </Link>
        <CopyButton text={value} label={name} />
        {name === 'runId' ? (
          <Link href={`/audit?runId=${encodeURIComponent(value)}`} className="text-xs underline">
            All of this run
          </Link>
        ) : null}
      </span>
    );
  }
  return (
    <span className="break-words">
      {keyFacts.has(name) ? <Person id={value} /> : <SafeText text={value} />}
    </span>
  );
}
