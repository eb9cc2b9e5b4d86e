/** "Always": which calls, where, until when, how often, and what that rule would have answered. */
import { escapeMisleading } from '@relay/protocol/display';
import {
  type Approval,
  defined,
  type GrantPreviewBody,
  type GrantScope,
  isObject,
} from '@relay/protocol/wire';
import { keepPreviousData, useQuery } from '@tanstack/react-query';
import { useState } from 'react';
import { Link } from 'wouter';
import { client } from '../../api/client.ts';
import { summaryOf } from '../../call/summary.ts';
import { Marked, SafeText } from '../../text/safe-text.tsx';
import { Button } from '../../ui/button.tsx';
import { Field, Input, Select } from '../../ui/form.tsx';
import { ErrorNotice } from '../../ui/notice.tsx';
import { Dialog } from '../../ui/overlay.tsx';
import { StatusBadge } from '../../ui/state.tsx';
import { Time } from '../../ui/values.tsx';
import { decide, useDecision } from './decisions.ts';
import { Refusal } from './refusal.tsx';
import { shownParams } from './words.ts';

interface AlwaysProps {
  readonly approval: Approval;
  readonly digest: string;
  readonly onClose: () => void;
}

const scopeTexts: Readonly<Record<GrantScope, string>> = {
  run: 'this run',
  conversation: 'this conversation',
  session: 'this session',
  tenant: 'everywhere in the tenant',
};

const hour = 3_600_000;
const lifetimes = [
  { label: 'no end', ms: 0 },
  { label: '1 hour', ms: hour },
  { label: '8 hours', ms: 8 * hour },
  { label: '1 day', ms: 24 * hour },
  { label: '7 days', ms: 7 * 24 * hour },
  { label: '30 days', ms: 30 * 24 * hour },
] as const;

function scopesOf({ runId, conversationId, sessionId }: Approval): GrantScope[] {
  return [
    ...(conversationId === undefined ? [] : (['conversation'] as const)),
    ...(runId === undefined ? [] : (['run'] as const)),
    ...(sessionId === undefined ? [] : (['session'] as const)),
    'tenant',
  ];
}

function scopeIdOf({ runId, conversationId, sessionId }: Approval, scope: GrantScope) {
  return { run: runId, conversation: conversationId, session: sessionId, tenant: undefined }[scope];
}

export function Always({ approval, digest, onClose }: AlwaysProps) {
  const { id, tool, suggestedRule } = approval;
  const scopes = scopesOf(approval);
  const [rule, setRule] = useState<'exact' | 'suggested'>('exact');
  const [scope, setScope] = useState<GrantScope>(scopes[0] ?? 'tenant');
  const [lifetime, setLifetime] = useState(0);
  const [uses, setUses] = useState('');
  const isSending = useDecision(id)?.status === 'sending';

  const params = shownParams(approval);
  const granted: Pick<GrantPreviewBody, 'tool' | 'params' | 'exact'> =
    rule === 'suggested' && suggestedRule !== undefined
      ? suggestedRule
      : { tool, exact: (isObject(params) ? params : {}) as NonNullable<GrantPreviewBody['exact']> };
  const body: GrantPreviewBody = {
    ...granted,
    scope,
    ...defined({ scopeId: scopeIdOf(approval, scope) }),
  };
  const preview = useQuery({
    queryKey: ['grant-preview', body],
    queryFn: ({ signal }) => client.grants.preview(body, { signal }),
    placeholderData: keepPreviousData,
  });

  const count = uses === '' ? undefined : Number(uses);
  const isValid =
    count === undefined || (Number.isInteger(count) && count >= 1 && count <= 1_000_000);
  const send = async () => {
    const expiresAt = lifetime === 0 ? undefined : new Date(Date.now() + lifetime).toISOString();
    const terms = defined({ expiresAt, uses: count });
    const isDone = await decide(id, 'Approving', {
      approved: true,
      always: true,
      rule,
      scope,
      digest,
      ...terms,
    });
    if (isDone) onClose();
  };

  return (
    <Dialog
      open
      onOpenChange={onClose}
      title="Approve this call, and calls like it"
      width="lg"
      footer={
        <>
          <Button onClick={onClose}>Cancel</Button>
          <Button kind="approve" disabled={isSending || !isValid} onClick={() => void send()}>
            {isSending ? 'Approving …' : `Approve and always allow`}
          </Button>
        </>
      }
    >
      <div className="grid gap-6 md:grid-cols-2">
        <div className="flex flex-col gap-4">
          <fieldset className="flex flex-col gap-2">
            <legend className="mb-1 text-sm font-medium">Which calls</legend>
            <Choice
              name="exact"
              isChosen={rule === 'exact'}
              onChoose={() => setRule('exact')}
              label="Exactly this call"
              detail={`${tool} ${summaryOf(params)}`}
            />
            {suggestedRule === undefined ? null : (
              <Choice
                name="suggested"
                isChosen={rule === 'suggested'}
                onChoose={() => setRule('suggested')}
                label="Calls that match"
                detail={ruleText(suggestedRule)}
              />
            )}
          </fieldset>
          <Field label="Where">
            {(ids) => (
              <Select
                {...ids}
                value={scope}
                onChange={(event) => setScope(event.target.value as GrantScope)}
              >
                {scopes.map((each) => (
                  <option key={each} value={each}>
                    {scopeTexts[each]}
                  </option>
                ))}
              </Select>
            )}
          </Field>
          <div className="grid grid-cols-2 gap-4">
            <Field label="Ends after">
              {(ids) => (
                <Select
                  {...ids}
                  value={lifetime}
                  onChange={(event) => setLifetime(Number(event.target.value))}
                >
                  {lifetimes.map(({ label, ms }) => (
                    <option key={ms} value={ms}>
                      {label}
                    </option>
                  ))}
                </Select>
              )}
            </Field>
            <Field label="Number of uses" error={isValid ? undefined : 'A whole number from 1'}>
              {(ids) => (
                <Input
                  {...ids}
                  inputMode="numeric"
                  placeholder="unlimited"
                  value={uses}
                  onChange={(event) => setUses(event.target.value.trim())}
                />
              )}
            </Field>
          </div>
          <p className="text-xs text-muted">
            Deny and ask rules still win. It can be revoked at any time under Policy, Grants.
          </p>
        </div>
        <section aria-label="Preview" className="flex min-w-0 flex-col gap-2">
          <h3 className="text-sm font-medium">What it would have answered</h3>
          {preview.error !== null ? (
            <ErrorNotice error={preview.error} onRetry={() => void preview.refetch()} />
          ) : preview.data === undefined ? (
            <p className="text-sm text-muted">…</p>
          ) : (
            <>
              <p role="status" className="text-sm">
                It would have answered <strong>{preview.data.matched}</strong> of the last{' '}
                {preview.data.looked} requests.
              </p>
              {preview.data.warning === undefined ? null : (
                <p className="text-xs text-waiting">{preview.data.warning}</p>
              )}
              <ul className="max-h-72 divide-y divide-line overflow-y-auto rounded border border-line">
                {preview.data.calls.map((call) => (
                  <li key={call.approvalId} className="flex items-center gap-2 px-2 py-1.5 text-xs">
                    <StatusBadge status={call.status} />
                    <Link
                      href={`/inbox/${call.approvalId}`}
                      className="min-w-0 flex-1 truncate font-mono hover:underline"
                      title={escapeMisleading(summaryOf(call.params))}
                    >
                      <Marked text={summaryOf(call.params)} />
                    </Link>
                    <span className="text-muted">
                      <Time at={call.requestedAt} />
                    </span>
                  </li>
                ))}
              </ul>
            </>
          )}
        </section>
      </div>
      <Refusal id={id} />
    </Dialog>
  );
}

function ruleText({ tool, params, exact }: NonNullable<Approval['suggestedRule']>): string {
  if (exact !== undefined) return `${tool} ${summaryOf(exact)}`;
  const parts = Object.entries(params ?? {}).map(([name, pattern]) => `${name}: ${pattern}`);
  return parts.length === 0 ? `${tool}, with any arguments` : `${tool} ${parts.join(' · ')}`;
}

interface ChoiceProps {
  readonly name: string;
  readonly isChosen: boolean;
  readonly onChoose: () => void;
  readonly label: string;
  readonly detail: string;
}

function Choice({ name, isChosen, onChoose, label, detail }: ChoiceProps) {
  return (
    <label className="flex cursor-pointer items-start gap-2 rounded border border-line p-2 text-sm has-checked:border-solid">
      <input
        type="radio"
        name="rule"
        value={name}
        checked={isChosen}
        onChange={onChoose}
        className="mt-1 accent-solid"
      />
      <span className="min-w-0">
        {label}
        <code className="block font-mono text-xs break-words text-muted">
          <SafeText text={detail} maxLength={400} />
        </code>
      </span>
    </label>
  );
}
