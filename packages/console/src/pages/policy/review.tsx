/** What a draft changes, and which recent calls it would have decided differently, before it is saved. */
import type { PolicyPreview } from '@relay/protocol/wire';
import { ArrowRight } from 'lucide-react';
import { Link } from 'wouter';
import { CallSummary } from '../../call/call-summary.tsx';
import { DiffOf } from '../../text/diff.tsx';
import { SafeText } from '../../text/safe-text.tsx';
import { Button } from '../../ui/button.tsx';
import { Dialog } from '../../ui/overlay.tsx';
import { formatCount, Time } from '../../ui/values.tsx';
import { DecisionBadge } from './decision-badge.tsx';
import { type Draft, linesOf } from './draft.ts';

interface ReviewProps {
  readonly draft: Draft;
  readonly preview: PolicyPreview;
  readonly isSaving: boolean;
  readonly onSave: () => void;
  readonly onClose: () => void;
}

export function Review({ draft, preview, isSaving, onSave, onClose }: ReviewProps) {
  const { base, rules } = draft;
  return (
    <Dialog
      open
      onOpenChange={(isOpen) => {
        if (!isOpen) onClose();
      }}
      width="lg"
      title={`Save version ${base.version + 1}`}
      footer={
        <>
          <Button onClick={onClose}>Back</Button>
          <Button kind="primary" disabled={isSaving} onClick={onSave}>
            {isSaving ? 'Saving …' : `Save version ${base.version + 1}`}
          </Button>
        </>
      }
    >
      <div className="flex flex-col gap-4">
        <section className="flex flex-col gap-2">
          <h3 className="text-sm font-semibold">Rules</h3>
          <DiffOf before={linesOf(base)} after={linesOf(rules)} />
        </section>
        <section className="flex flex-col gap-2">
          <h3 className="text-sm font-semibold">Effect on recent calls</h3>
          <Effect preview={preview} />
        </section>
      </div>
    </Dialog>
  );
}

function Effect({ preview }: { readonly preview: PolicyPreview }) {
  const { calls, runs, complete, since, changed, changes } = preview;
  const scope = complete ? (
    <>
      of {formatCount(runs)} {runs === 1 ? 'run' : 'runs'} since <Time at={since} />
    </>
  ) : (
    <>of the latest {formatCount(runs)} runs; there are more</>
  );
  return (
    <>
      <p role="status" className="text-sm">
        {calls === 0 ? (
          'There were no calls in the last seven days, so nothing can be compared.'
        ) : (
          <>
            <strong className="font-semibold">
              Would change {formatCount(changed)} of the last {formatCount(calls)}{' '}
              {calls === 1 ? 'call' : 'calls'}
            </strong>
            , {scope}.
          </>
        )}
      </p>
      {changes.length === 0 ? null : (
        <ul className="flex flex-col rounded border border-line">
          {changes.map(({ runId, toolCallId, agent, tool, params, at, was, now }) => (
            <li
              key={`${runId} ${toolCallId}`}
              className="flex flex-wrap items-center gap-x-3 gap-y-1 border-b border-line px-3 py-1.5 last:border-b-0"
            >
              <span className="flex items-center gap-1">
                <DecisionBadge decision={was} />
                <ArrowRight role="img" aria-label="becomes" size={12} className="text-muted" />
                <DecisionBadge decision={now} />
              </span>
              <span className="min-w-0 flex-1 basis-60 text-sm">
                <CallSummary tool={tool} params={params} />
              </span>
              <Link href={`/runs/${runId}`} className="text-xs text-muted underline">
                <SafeText text={agent} maxLength={40} />, <Time at={at} />
              </Link>
            </li>
          ))}
        </ul>
      )}
      {changes.length < changed ? (
        <p className="text-xs text-muted">The latest {changes.length} of them are listed.</p>
      ) : null}
    </>
  );
}
