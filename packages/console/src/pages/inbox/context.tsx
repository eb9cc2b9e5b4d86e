/** Who asks, why a person is asked, and what happened before. */
import { escapeMisleading } from '@relay/protocol/display';
import {
  type Approval,
  type ApprovalsQuery,
  type Explanation,
  isObject,
} from '@relay/protocol/wire';
import { skipToken, useQuery } from '@tanstack/react-query';
import { Ban, Check, CircleDashed, X } from 'lucide-react';
import type { ReactNode } from 'react';
import { Link } from 'wouter';
import { useAccount } from '../../api/account.tsx';
import { client } from '../../api/client.ts';
import { addressOfRule } from '../../call/rule-address.ts';
import { SafeText } from '../../text/safe-text.tsx';
import { cx } from '../../ui/cx.ts';
import { errorText } from '../../ui/notice.tsx';
import { Time } from '../../ui/values.tsx';
import { Row } from './parts.tsx';
import { lastSteps, requestOf, type Step } from './steps.ts';
import {
  approversText,
  nameOf,
  pathText,
  shownDigest,
  shownParams,
  requestText,
  verdictOf,
} from './words.ts';

interface Props {
  readonly approval: Approval;
}

const link = 'text-working underline underline-offset-2';

/** The agent path, with a link to its session. */
export function Requester({ approval: { agentPath, sessionId, runId } }: Props) {
  const { data: session } = useQuery({
    queryKey: ['session', sessionId],
    queryFn:
      sessionId === undefined
        ? skipToken
        : ({ signal }) => client.sessions.get(sessionId, { signal }),
  });
  const path = escapeMisleading(pathText(agentPath));
  return (
    <span className="inline-flex flex-wrap items-baseline gap-x-2 font-medium wrap-anywhere">
      {sessionId === undefined ? null : (
        <Link href={`/sessions/${sessionId}`} className={link}>
          {session === undefined ? 'session' : `@${escapeMisleading(session.identity.handle)}`}
        </Link>
      )}
      {runId === undefined ? (
        path
      ) : (
        <Link href={`/runs/${runId}`} className={link} title="Open the run">
          {path === '' ? 'run' : path}
        </Link>
      )}
    </span>
  );
}

/** How the rules decide the call as it is shown. */
export function useExplanation(approval: Approval) {
  const params = shownParams(approval);
  const { id, tool, kind } = approval;
  const isExplained = isObject(params) && kind !== 'question';
  return useQuery({
    queryKey: ['explain', id, shownDigest(approval)],
    queryFn: isExplained
      ? ({ signal }) =>
          client.permissions.explain(
            {
              tool,
              params: params as Record<string, never>,
              approvalId: id,
            },
            { signal },
          )
      : skipToken,
  });
}

export function Why({ approval }: Props) {
  const { kind, rule } = approval;
  const { data, error } = useExplanation(approval);
  if (kind === 'question') return null;
  return (
    <Row label="Why am I asked?">
      {kind === 'outcome' ? (
        'The server stopped while this tool was running, so that its result is not known. Relay never runs such a tool a second time by itself.'
      ) : data === undefined ? (
        <span className="text-muted">{error === null ? '…' : errorText(error)}</span>
      ) : (
        <>
          <SafeText text={data.reason} /> <RuleLink rule={data.rule ?? rule} />
          {data.decision === 'ask' || approval.status !== 'pending' ? null : (
            <p className="mt-1 text-waiting">
              {data.decision === 'allow'
                ? 'By the rules of now it would run without a question.'
                : 'By the rules of now it would be denied.'}
            </p>
          )}
        </>
      )}
    </Row>
  );
}

function RuleLink({ rule }: { readonly rule: Explanation['rule'] | Approval['rule'] }) {
  const address = rule === undefined ? undefined : addressOfRule(rule);
  if (address === undefined) return null;
  return (
    <Link href={address.href} className={cx(link, 'whitespace-nowrap')}>
      {escapeMisleading(address.label)} ▸
    </Link>
  );
}

export function Votes({ approval }: Props) {
  const { data: account } = useAccount();
  const { votes = [], quorum = 1 } = approval;
  const who = approversText(approval);
  if (who === undefined && votes.length === 0) return null;
  return (
    <Row label="Who may decide">
      {who}
      {quorum < 2 ? null : (
        <p className="mt-1" data-votes>
          <strong className="font-semibold">
            {votes.length} of {quorum} votes
          </strong>
          {votes.map(({ by, at }) => (
            <span key={`${by.id} ${at}`}>
              {' · '}
              {escapeMisleading(nameOf(by, account))}, <Time at={at} />
            </span>
          ))}
        </p>
      )}
    </Row>
  );
}

const eventsPerPage = 300;
const maxPages = 4;

/** The run and its journal before the call, which does not change any more. */
export function useRunContext({ id, runId, toolCallId }: Approval) {
  return useQuery({
    queryKey: ['run-context', id],
    staleTime: Number.POSITIVE_INFINITY,
    queryFn:
      runId === undefined
        ? skipToken
        : async ({ signal }) => {
            const run = await client.runs.get(runId, { signal });
            let after = Math.max(0, run.lastSeq - eventsPerPage);
            let events = (
              await client.runs.events(runId, { after, limit: eventsPerPage }, { signal }).page()
            ).items;
            // The run may have gone on meanwhile with other calls.
            for (let page = 1; page < maxPages && after > 0; page += 1) {
              const isFound = events.some(
                (event) => event.type === 'tool.called' && event.toolCallId === toolCallId,
              );
              if (isFound) break;
              const end = after;
              after = Math.max(0, after - eventsPerPage);
              const limit = end - after;
              const { items } = await client.runs
                .events(runId, { after, limit }, { signal })
                .page();
              events = [...items, ...events];
            }
            return { run, events };
          },
  });
}

export function UserRequest({ approval }: Props) {
  const { data } = useRunContext(approval);
  if (approval.runId === undefined) return null;
  const request = data === undefined ? undefined : requestOf(data.run);
  return (
    <Row label="Request">
      {data === undefined ? (
        <span className="text-muted">…</span>
      ) : (
        <>
          {request === undefined ? (
            <span className="text-muted">No text of a user</span>
          ) : (
            <q className="whitespace-pre-wrap">
              <SafeText text={request} maxLength={500} />
            </q>
          )}{' '}
          <span className="text-muted">
            <Time at={data.run.createdAt} />
          </span>
        </>
      )}
    </Row>
  );
}

export function LastSteps({ approval }: Props) {
  const { data, error } = useRunContext(approval);
  const { runId } = approval;
  if (runId === undefined) return null;
  const steps = data === undefined ? undefined : lastSteps(data.events, approval);
  return (
    <Row label="Last steps">
      {error === null ? null : <span className="text-muted">{errorText(error)}</span>}
      {steps === undefined ? (
        error === null ? (
          '…'
        ) : null
      ) : steps.length === 0 ? (
        <span className="text-muted">This is the first step of the run.</span>
      ) : (
        <ol className="flex flex-col gap-1">
          {steps.map((step) => (
            <li key={step.seq} className="flex items-baseline gap-2">
              <StepState state={step.state} />
              <StepText step={step} />
              <Link
                href={`/runs/${runId}?seq=${step.seq}`}
                className={cx(link, 'ml-auto shrink-0 text-xs')}
              >
                #{step.seq}
              </Link>
            </li>
          ))}
        </ol>
      )}
    </Row>
  );
}

function StepText({ step: { tool, text, from } }: { readonly step: Step }) {
  return (
    <span className="line-clamp-3 min-w-0 break-words">
      {tool === undefined ? null : (
        <strong className="font-semibold">{escapeMisleading(tool)} </strong>
      )}
      {from === undefined ? null : <span className="text-muted">{escapeMisleading(from)}: </span>}
      <span className={tool === undefined ? '' : 'font-mono text-xs text-muted'}>
        {escapeMisleading(text.slice(0, maxStepText))}
        {text.length > maxStepText ? '…' : ''}
      </span>
    </span>
  );
}

const maxStepText = 400;

const stepLooks = {
  completed: [Check, 'text-done', 'Completed'],
  failed: [X, 'text-failed', 'Failed'],
  denied: [Ban, 'text-failed', 'Denied'],
  open: [CircleDashed, 'text-muted', 'Not finished'],
} as const;

function StepState({ state }: { readonly state: Step['state'] }) {
  if (state === undefined) return <span aria-hidden className="w-3.5 shrink-0" />;
  const [Icon, colour, label] = stepLooks[state];
  return (
    <Icon role="img" aria-label={label} size={14} className={cx('shrink-0 self-center', colour)} />
  );
}

const shownEarlier = 5;

/** How calls of this tool were decided before. */
export function Earlier({ approval }: Props) {
  const { tool, kind, id } = approval;
  const { data: account } = useAccount();
  const { data } = useQuery({
    queryKey: ['earlier-decisions', tool],
    queryFn: async ({ signal }) => {
      const query: ApprovalsQuery = {
        tool,
        status: ['approved', 'denied'],
        kind: 'permission',
        limit: 100,
      };
      const { items } = await client.approvals.list(query, { signal }).page();
      return items.toSorted((one, other) =>
        (one.decidedAt ?? '') < (other.decidedAt ?? '') ? 1 : -1,
      );
    },
  });
  if (kind !== 'permission' || data === undefined) return null;
  const others = data.filter((each) => each.id !== id);
  if (others.length === 0) return null;
  const approved = others.filter(({ status }) => status === 'approved').length;
  const denied = others.length - approved;
  return (
    <Row label="Earlier">
      <details>
        <summary>
          approved {approved}×, denied {denied}×
          <Reasons approvals={others} />
        </summary>
        <ul className="mt-1 flex flex-col gap-1">
          {others.slice(0, shownEarlier).map((each) => (
            <li key={each.id} className="flex flex-wrap items-baseline gap-x-2">
              <Link href={`/inbox/${each.id}`} className={link}>
                {verdictOf(each)}
              </Link>
              <span className="text-muted">
                {each.decidedBy === undefined
                  ? null
                  : `by ${escapeMisleading(nameOf(each.decidedBy, account))}, `}
                <Time at={each.decidedAt ?? each.requestedAt} />
              </span>
              <span className="min-w-0 truncate font-mono text-xs text-muted">
                {escapeMisleading(requestText(each))}
              </span>
              {each.reason === undefined ? null : (
                <q>{escapeMisleading(each.reason.slice(0, 200))}</q>
              )}
            </li>
          ))}
        </ul>
      </details>
    </Row>
  );
}

/** The reasons of the last denials. */
function Reasons({ approvals }: { readonly approvals: readonly Approval[] }): ReactNode {
  const reasons = approvals.flatMap(({ status, reason }) =>
    status === 'denied' && reason !== undefined ? [reason] : [],
  );
  if (reasons.length === 0) return null;
  return reasons
    .slice(0, 2)
    .map((reason) => ` “${escapeMisleading(reason.slice(0, 80))}”`)
    .join(',');
}
