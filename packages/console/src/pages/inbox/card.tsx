/** One approval: what exactly will run, who asks, why, and the decision. */
import { describeFlags, escapeMisleading } from '@relay/protocol/display';
import type { Approval } from '@relay/protocol/wire';
import { RelayApiError } from '@relay/sdk';
import { Clock } from 'lucide-react';
import { type ReactNode, Suspense, useEffect, useRef, useState } from 'react';
import { Link } from 'wouter';
import { useAccount, useMay } from '../../api/account.tsx';
import { useApproval } from '../../api/approvals.ts';
import { SafeText } from '../../text/safe-text.tsx';
import { cx } from '../../ui/cx.ts';
import { lazyPart } from '../../ui/lazy-part.ts';
import { Empty, ErrorNotice, Loading } from '../../ui/notice.tsx';
import { lookOf, StatusBadge } from '../../ui/state.tsx';
import { Ago, formatDuration, Id, Time, useNow } from '../../ui/values.tsx';
import { ActionBar, answerFormId } from './actions.tsx';
import {
  Earlier,
  LastSteps,
  Requester,
  useExplanation,
  UserRequest,
  Votes,
  Why,
} from './context.tsx';
import { Evidence } from './outcome.tsx';
import { CallChanged, Row, Warning } from './parts.tsx';
import {
  callKey,
  hasVoted,
  isMe,
  nameOf,
  shownDigest,
  shownParams,
  urgencyOf,
  verdictOf,
} from './words.ts';

interface CardProps {
  readonly id: string;
  /** Called with the key of the call that the card shows. */
  readonly onSeen: (call: string) => void;
  /** Opens the next request. */
  /** Undefined: no other request waits. */
  readonly onNext: (() => void) | undefined;
  readonly identical: ReactNode;
}

export function Card({ id, ...rest }: CardProps) {
  const { approval, error } = useApproval(id);
  if (approval !== undefined) {
    return <ApprovalCard key={id} approval={approval} {...rest} />;
  }
  if (error === undefined) return <Loading />;
  if (error instanceof RelayApiError && error.status === 404) {
    return (
      <Empty title="There is no such approval">
        It may have been deleted with its run, or it belongs to another tenant.
      </Empty>
    );
  }
  return <ErrorNotice title="The approval could not be loaded" error={error} />;
}

function ApprovalCard({
  approval,
  onSeen,
  onNext,
  identical,
}: Omit<CardProps, 'id'> & { readonly approval: Approval }) {
  const seen = useSeenCall(approval);
  const { digest, isReadable, isChanged } = seen;
  const call = callKey(approval);
  useEffect(() => {
    if (isReadable && !isChanged) onSeen(call);
  }, [isReadable, isChanged, onSeen, call]);
  return (
    <>
      <article
        tabIndex={-1}
        id="approval"
        aria-label={`Approval of ${escapeMisleading(approval.tool)}`}
        className="min-h-0 flex-1 overflow-y-auto outline-none"
      >
        <div className="mx-auto flex max-w-[920px] flex-col gap-4 p-4 pb-8">
          <CardHeader approval={approval} />
          <Verdict approval={approval} />
          <Call approval={approval} seen={seen} />
          {identical}
          <dl className="flex flex-col divide-y divide-line rounded border border-line bg-surface">
            <Why approval={approval} />
            <Votes approval={approval} />
            <UserRequest approval={approval} />
            <LastSteps approval={approval} />
            <Earlier approval={approval} />
            <Details approval={approval} />
            <Row label="As text">
              <details>
                <summary className="text-muted">
                  the whole request, as every client shows it
                </summary>
                <pre className="mt-2 overflow-x-auto font-mono text-xs whitespace-pre-wrap">
                  <SafeText text={approval.display.text} maxLength={20_000} />
                </pre>
              </details>
            </Row>
          </dl>
        </div>
      </article>
      <ActionBar
        approval={approval}
        digest={digest}
        isChanged={isChanged}
        isReadable={isReadable}
        onNext={onNext}
      />
    </>
  );
}

function CardHeader({ approval }: { readonly approval: Approval }) {
  const { tool, status, requestedAt, kind } = approval;
  return (
    <header className="flex flex-wrap items-center gap-x-3 gap-y-1">
      <h2 className="min-w-0 font-mono text-lg font-semibold break-all">
        {escapeMisleading(tool)}
      </h2>
      {kind === 'permission' ? null : (
        <span className="text-sm text-muted">
          {kind === 'question' ? 'asks a question' : 'unknown outcome'}
        </span>
      )}
      {status === 'pending' ? (
        <span className="flex items-center gap-3 text-sm text-muted">
          <span>
            asked <Ago at={requestedAt} />
          </span>
          <Countdown approval={approval} />
        </span>
      ) : (
        <StatusBadge status={status} />
      )}
      <span className="ml-auto text-sm">
        <Requester approval={approval} />
      </span>
    </header>
  );
}

const urgencyClass = {
  calm: 'text-muted',
  soon: 'text-waiting font-medium',
  last: 'text-failed font-medium',
};

function Countdown({ approval }: { readonly approval: Approval }) {
  const now = useNow();
  const left = Date.parse(approval.expiresAt) - now;
  return (
    <span
      className={cx(
        'inline-flex items-center gap-1 whitespace-nowrap',
        urgencyClass[urgencyOf(approval, now)],
      )}
    >
      <Clock aria-hidden size={14} />
      {left <= 0
        ? 'expires now'
        : `expires in ${formatDuration(Math.max(1_000, Math.floor(left / 1_000) * 1_000))}`}
    </span>
  );
}

/** Who decided, what and when; it stays on the page when another person was faster. */
function Verdict({ approval }: { readonly approval: Approval }) {
  const { data: account } = useAccount();
  const { status, decidedAt, decidedBy, reason, requestedAt } = approval;
  if (status === 'pending') return null;
  const { icon: Icon, tone } = lookOf(status);
  const tones = { done: 'bg-done-soft text-done', failed: 'bg-failed-soft text-failed' } as const;
  const at = decidedAt ?? approval.expiresAt;
  return (
    <div
      role="status"
      data-verdict={status}
      className={cx(
        'flex items-start gap-2 rounded p-3 text-sm',
        tone === 'done' || tone === 'failed' ? tones[tone] : 'bg-ended-soft text-ended',
      )}
    >
      <Icon aria-hidden size={16} className="mt-0.5 shrink-0" />
      <div className="min-w-0 break-words">
        <strong className="font-semibold">{verdictOf(approval)}</strong>
        {decidedBy === undefined || status === 'expired' ? null : (
          <>
            {' '}
            by{' '}
            <strong className="font-semibold">
              {escapeMisleading(nameOf(decidedBy, account))}
            </strong>
          </>
        )}
        , <Time at={at} />
        {decidedBy === undefined || isMe(decidedBy, account) ? null : (
          <span>
            {' '}
            ({formatDuration(Math.max(0, Date.parse(at) - Date.parse(requestedAt)))} after it was
            asked)
          </span>
        )}
        {status === 'expired' ? ': no approver decided in time, so the call did not run.' : null}
        {reason === undefined ? null : (
          <q className="mt-1 block">
            <SafeText text={reason} maxLength={600} />
          </q>
        )}
      </div>
    </div>
  );
}

/** The call that the person has seen: a decision is bound to it, whatever arrives meanwhile. */
export interface SeenCall {
  readonly digest: string;
  /** The call on the page is another one. */
  readonly isChanged: boolean;
  readonly acceptChange: () => void;
  /** Nothing can be decided before it can be read. */
  readonly isReadable: boolean;
  readonly setReadable: () => void;
}

export function useSeenCall(approval: Approval): SeenCall {
  const { data: account } = useAccount();
  const [seen, setSeen] = useState(() => shownDigest(approval));
  const [isReadable, setReadable] = useState(false);
  const shown = shownDigest(approval);
  // Who has voted knows the call: a change by another person would have cleared the vote.
  const digest = hasVoted(approval, account) ? shown : seen;
  return {
    digest,
    isChanged: approval.status === 'pending' && digest !== shown,
    acceptChange: () => setSeen(shown),
    isReadable,
    setReadable: () => setReadable(true),
  };
}

interface CallProps {
  readonly approval: Approval;
  readonly seen: SeenCall;
  /** Of the form of an answer. */
  readonly formId?: string;
}

/** What is asked: the call exactly as it will run, the question, or what is not known. */
export function Call({ approval, seen, formId = answerFormId }: CallProps) {
  const mayApprove = useMay('approve');
  const { kind, prompt, display, tool, concrete, shown, params, executedParams } = approval;
  const { data: explanation } = useExplanation(approval);
  const flags = describeFlags(display.flags);
  return (
    <section aria-label="The request" className="flex min-w-0 flex-col gap-3">
      {seen.isChanged ? <CallChanged onSeen={seen.acceptChange} /> : null}
      {kind === 'outcome' ? <Evidence approval={approval} /> : null}
      {flags.length === 0 ? null : (
        <Warning>
          {flags.map((flag) => (
            <p key={flag}>The request {flag}.</p>
          ))}
        </Warning>
      )}
      <EarlierDenial approval={approval} />
      {kind === 'question' ? (
        <>
          <p className="text-lg break-words whitespace-pre-wrap">
            <SafeText text={prompt ?? ''} />
          </p>
          {approval.status === 'pending' ? (
            mayApprove && !seen.isChanged ? (
              <Suspense fallback={<Loading lines={2} />}>
                <Question approval={approval} digest={seen.digest} formId={formId} />
              </Suspense>
            ) : null
          ) : approval.input === undefined ? null : (
            <Box title="The answer">
              <Suspense>
                <CallView tool={tool} params={approval.input} />
              </Suspense>
            </Box>
          )}
        </>
      ) : null}
      <Box title={kind === 'question' ? 'Asked by this call' : undefined}>
        <Suspense fallback={<Loading lines={2} />}>
          <CallView
            tool={tool}
            params={shownParams(approval)}
            preview={approval.preview}
            resolvedPaths={approval.resolvedPaths}
            parameters={explanation?.parameters}
          />
          <Rendered onRendered={seen.setReadable} />
        </Suspense>
      </Box>
      {executedParams === undefined ? null : (
        <Box title="Changed by an approver">
          <Suspense fallback={<Loading lines={2} />}>
            <ArgumentsDiff before={params} after={executedParams} />
          </Suspense>
        </Box>
      )}
      {concrete === false ? (
        <Warning>The agent does not say what this call would do exactly.</Warning>
      ) : null}
      {shown === undefined || Object.keys(shown).length === 0 ? null : (
        <Box title="What the agent says about it, which is not checked">
          <Suspense fallback={<Loading lines={2} />}>
            <CallView tool={tool} params={shown} />
          </Suspense>
        </Box>
      )}
    </section>
  );
}

/** Tells that its siblings, some of which are loaded first, are on the page. */
function Rendered({ onRendered }: { readonly onRendered: () => void }) {
  const latest = useRef(onRendered);
  useEffect(() => latest.current(), []);
  return null;
}

const CallView = lazyPart(async () => (await import('../../call/call-view.tsx')).CallView);
const ArgumentsDiff = lazyPart(
  async () => (await import('../../call/arguments-diff.tsx')).ArgumentsDiff,
);
const Question = lazyPart(async () => (await import('./question.tsx')).Question);

function Box({
  title,
  children,
}: {
  readonly title: string | undefined;
  readonly children: ReactNode;
}) {
  return (
    <div className="min-w-0 rounded border border-line bg-surface p-4">
      {title === undefined ? null : (
        <h3 className="mb-2 text-sm font-medium text-muted">{title}</h3>
      )}
      {children}
    </div>
  );
}

function EarlierDenial({ approval: { earlierDenial } }: { readonly approval: Approval }) {
  const { data: account } = useAccount();
  if (earlierDenial === undefined) return null;
  const { by, at, reason } = earlierDenial;
  return (
    <Warning>
      The same call was denied before in this run by {escapeMisleading(nameOf(by, account))},{' '}
      <Time at={at} />
      {reason === undefined ? null : (
        <>
          : <q>{escapeMisleading(reason.slice(0, 500))}</q>
        </>
      )}
    </Warning>
  );
}

function Details({ approval }: { readonly approval: Approval }) {
  const { id, runId, sessionId, conversationId, toolCallId } = approval;
  return (
    <Row label="Ids">
      <span className="flex flex-wrap gap-x-4 gap-y-1">
        <Named name="approval">
          <Id id={id} label="approval id" />
        </Named>
        {runId === undefined ? null : (
          <Named name="run">
            <Link href={`/runs/${runId}`} className="text-working underline underline-offset-2">
              open
            </Link>{' '}
            <Id id={runId} label="run id" />
          </Named>
        )}
        {sessionId === undefined ? null : (
          <Named name="session">
            <Id id={sessionId} label="session id" />
          </Named>
        )}
        {conversationId === undefined ? null : (
          <Named name="conversation">
            <Id id={conversationId} label="conversation id" />
          </Named>
        )}
        {toolCallId === undefined ? null : (
          <Named name="call">
            <Id id={toolCallId} label="tool call id" />
          </Named>
        )}
        <Named name="digest">
          <Id id={shownDigest(approval)} label="digest" />
        </Named>
      </span>
    </Row>
  );
}

function Named({ name, children }: { readonly name: string; readonly children: ReactNode }) {
  return (
    <span className="inline-flex items-center gap-1 text-xs text-muted">
      {name} {children}
    </span>
  );
}
