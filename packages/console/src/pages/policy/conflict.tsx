/** Somebody else has saved the policy while it was being edited. Nothing is lost: the editor chooses. */
import type { Policy } from '@relay/protocol/wire';
import { useEffect, useRef } from 'react';
import { DiffOf } from '../../text/diff.tsx';
import { SafeText } from '../../text/safe-text.tsx';
import { Button } from '../../ui/button.tsx';
import { Note } from '../../ui/notice.tsx';
import { Ago } from '../../ui/values.tsx';
import { combine, type Draft, linesOf, rulesOf } from './draft.ts';

interface ConflictProps {
  readonly draft: Draft;
  readonly theirs: Policy;
  /** With the changes to make to their version; null: none. */
  readonly onResolve: (draft: Draft | null) => void;
}

export function Conflict({ draft, theirs, onResolve }: ConflictProps) {
  const { version, updatedAt, updatedBy } = theirs;
  const base = { ...rulesOf(theirs), version };
  const section = useRef<HTMLElement>(null);
  useEffect(() => {
    section.current?.scrollIntoView({ block: 'start' });
  }, []);
  const combined = combine(draft.base, draft.rules, theirs);
  return (
    <section ref={section} aria-label="Conflict" className="flex flex-col gap-3">
      <Note
        tone="waiting"
        actions={
          <>
            <Button kind="primary" onClick={() => onResolve({ base, rules: combined })}>
              Combine both
            </Button>
            <Button onClick={() => onResolve({ base, rules: draft.rules })}>Keep only mine</Button>
            <Button kind="danger" onClick={() => onResolve(null)}>
              Discard mine
            </Button>
          </>
        }
      >
        <strong className="font-semibold">
          <SafeText text={updatedBy?.owner ?? updatedBy?.name ?? 'Somebody else'} /> has saved
          version {version}
        </strong>{' '}
        {updatedAt === undefined ? null : <Ago at={updatedAt} />}, while you were changing version{' '}
        {draft.base.version}. Your changes are still here and are not saved. Combining makes your
        changes to version {version}; new rules come last in their lists.
      </Note>
      <div className="grid gap-3 min-[900px]:grid-cols-2">
        <figure className="flex min-w-0 flex-col gap-1">
          <figcaption className="text-sm font-medium">
            Their changes: version {draft.base.version} → {version}
          </figcaption>
          <DiffOf before={linesOf(draft.base)} after={linesOf(theirs)} />
        </figure>
        <figure className="flex min-w-0 flex-col gap-1">
          <figcaption className="text-sm font-medium">Your changes</figcaption>
          <DiffOf before={linesOf(draft.base)} after={linesOf(draft.rules)} />
        </figure>
      </div>
    </section>
  );
}
