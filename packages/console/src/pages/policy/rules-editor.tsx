/** The rules of the policy as rows or as JSON. Changes are a draft until they are reviewed and saved. */
import { defined, type Policy, type PolicyPreview } from '@relay/protocol/wire';
import { RelayApiError } from '@relay/sdk';
import { useMutation } from '@tanstack/react-query';
import { Pencil, Plus, Trash2 } from 'lucide-react';
import { useEffect, useRef, useState } from 'react';
import { Link, useSearchParams } from 'wouter';
import { useMay } from '../../api/account.tsx';
import { client } from '../../api/client.ts';
import { queries } from '../../api/queries.ts';
import { SafeText } from '../../text/safe-text.tsx';
import { Button, IconButton } from '../../ui/button.tsx';
import { cx } from '../../ui/cx.ts';
import { Field, TextArea } from '../../ui/form.tsx';
import { PageBody, Section } from '../../ui/layout.tsx';
import { ErrorNotice, errorText, Loading, Note } from '../../ui/notice.tsx';
import { toast } from '../../ui/toast.tsx';
import { Ago } from '../../ui/values.tsx';
import { AgentSelect } from './agent-select.tsx';
import { Conflict } from './conflict.tsx';
import {
  type ApproverRule,
  changesText,
  countChanges,
  type Draft,
  issuesByRule,
  jsonOf,
  noIssues,
  parseRules,
  type PolicyList,
  policyLists,
  ruleKey,
  type Rules,
  rulesOf,
  type RuleIssues,
  type ToolRule,
} from './draft.ts';
import { Review } from './review.tsx';
import { RuleForm } from './rule-form.tsx';
import { RuleSummary } from './rule-summary.tsx';
import { Suggestion } from './suggestion.tsx';
import { setDraft, useDraft, usePolicy } from './use-policy.ts';

const about: Readonly<Record<PolicyList, { title: string; text: string }>> = {
  deny: { title: 'Deny', text: 'Matching calls are refused. Nothing overrides it.' },
  ask: {
    title: 'Ask',
    text: 'Matching calls need an approval each time, even if another rule allows them.',
  },
  allow: { title: 'Allow', text: 'Matching calls run without an approval.' },
  approvers: {
    title: 'Approvers',
    text: 'Who may decide about matching calls. The first rule that matches counts.',
  },
};

export function RulesEditor() {
  const [search, setSearch] = useSearchParams();
  const agent = search.get('agent') ?? undefined;
  const policy = usePolicy(agent);
  const change = (name: string, value: string | undefined) =>
    setSearch((before) => {
      const next = new URLSearchParams(before);
      for (const each of ['list', 'rule', 'version']) next.delete(each);
      if (value === undefined) next.delete(name);
      else next.set(name, value);
      return next;
    });
  const isJson = search.get('view') === 'json';
  return (
    <PageBody>
      <div className="flex flex-wrap items-center gap-3">
        <label className="flex items-center gap-2 text-sm">
          <span className="whitespace-nowrap text-muted">Rules for</span>
          <AgentSelect agent={agent} none="All agents" onChange={(next) => change('agent', next)} />
        </label>
        <div role="group" aria-label="View" className="flex">
          <Button
            aria-pressed={!isJson}
            className={cx('rounded-r-none', !isJson && 'bg-selected!')}
            onClick={() => change('view', undefined)}
          >
            Rows
          </Button>
          <Button
            aria-pressed={isJson}
            className={cx('-ml-px rounded-l-none', isJson && 'bg-selected!')}
            onClick={() => change('view', 'json')}
          >
            JSON
          </Button>
        </div>
        {policy.data === undefined ? null : <VersionLine policy={policy.data} />}
      </div>
      {policy.data !== undefined ? (
        <Editor
          // Open forms belong to one policy.
          key={agent ?? ''}
          agent={agent}
          policy={policy.data}
          isJson={isJson}
          onConflict={() => void policy.refetch()}
        />
      ) : policy.error === null ? (
        <Loading />
      ) : (
        <ErrorNotice
          title="The policy could not be loaded"
          error={policy.error}
          onRetry={() => void policy.refetch()}
        />
      )}
    </PageBody>
  );
}

function VersionLine({ policy }: { readonly policy: Policy }) {
  const { version, updatedAt, updatedBy, agent } = policy;
  if (version === 0 || updatedAt === undefined) {
    return <span className="text-sm text-muted">No version is saved yet</span>;
  }
  const query = agent === undefined ? '' : `?agent=${encodeURIComponent(agent)}`;
  return (
    <span className="min-w-0 text-sm text-muted">
      <Link href={`/policy/history${query}`} className="underline underline-offset-2">
        Version {version}
      </Link>
      , saved by <SafeText text={updatedBy?.owner ?? updatedBy?.name ?? 'the server'} />{' '}
      <Ago at={updatedAt} />
    </span>
  );
}

interface EditorProps {
  readonly agent: string | undefined;
  readonly policy: Policy;
  readonly isJson: boolean;
  readonly onConflict: () => void;
}

interface Open {
  readonly list: PolicyList;
  readonly index: number;
  /** Not part of the draft until it is applied. */
  readonly isNew: boolean;
}

function Editor({ agent, policy, isJson, onConflict }: EditorProps) {
  const mayEdit = useMay('admin');
  const draft = useDraft(agent);
  const rules: Rules = draft?.rules ?? policy;
  const [open, setOpen] = useState<Open>();
  const [issues, setIssues] = useState<RuleIssues>(noIssues);
  const [jsonProblem, setJsonProblem] = useState<string>();
  const [reviewed, setReviewed] = useState<PolicyPreview>();

  const update = (next: Rules) => {
    setIssues(noIssues);
    preview.reset();
    save.reset();
    const base = draft?.base ?? { ...rulesOf(policy), version: policy.version };
    setDraft(agent, { base, rules: rulesOf(next) });
  };
  /** What the server says about rules is shown at them. */
  const onError = (error: unknown) => {
    if (!(error instanceof RelayApiError)) return;
    setReviewed(undefined);
    setIssues(issuesByRule(error.details ?? []));
    if (error.code === 'policy_conflict') onConflict();
  };
  const preview = useMutation({
    mutationFn: () => client.policy.preview({ ...defined({ agent }), ...rulesOf(rules) }),
    onSuccess: setReviewed,
    onError,
  });
  const save = useMutation({
    mutationFn: ({ base }: Draft) =>
      client.policy.put({ ...defined({ agent }), ...rulesOf(rules), version: base.version }),
    onSuccess: (saved) => {
      queries.setQueryData(['policy', agent ?? null], saved);
      void queries.invalidateQueries({ queryKey: ['policy-versions'] });
      setDraft(agent, null);
      setReviewed(undefined);
      setIssues(noIssues);
      toast(`Version ${saved.version} is saved. It applies from the next call on.`);
    },
    onError,
  });
  // A text that is no JSON is gone with its view.
  useEffect(() => setJsonProblem(undefined), [isJson]);
  const isConflict = draft !== null && draft.base.version !== policy.version;
  const error = save.error ?? preview.error;
  const isAtRules = issues.byRule.size > 0;
  const isConflictError = error instanceof RelayApiError && error.code === 'policy_conflict';

  return (
    <>
      {mayEdit ? null : (
        <Note tone="ended">
          You can read the policy. To change it, sign in with a key that has the scope admin.
        </Note>
      )}
      {isConflict ? (
        <Conflict
          draft={draft}
          theirs={policy}
          onResolve={(next) => {
            save.reset();
            setIssues(noIssues);
            setOpen(undefined);
            setDraft(agent, next);
          }}
        />
      ) : null}
      {error === null || isConflictError ? null : (
        <Note tone="failed">
          {isAtRules
            ? 'The server refuses some of the rules; what is wrong is said at each of them.'
            : errorText(error)}
          {issues.others.map(({ path, message }) => (
            <p key={path}>
              {path}: {message}
            </p>
          ))}
        </Note>
      )}
      <Moved policy={policy} />
      <Suggestion
        onAdd={mayEdit ? (rule) => update({ ...rules, allow: [...rules.allow, rule] }) : undefined}
      />
      {isJson ? (
        <JsonEditor
          rules={rules}
          isReadOnly={!mayEdit}
          issues={issues}
          problem={jsonProblem}
          onChange={(next, problem) => {
            setJsonProblem(problem);
            if (next !== undefined) update(next);
          }}
        />
      ) : (
        policyLists.map((list) => (
          <RuleList
            key={list}
            list={list}
            rules={rules[list]}
            saved={policy[list]}
            issues={issues}
            mayEdit={mayEdit}
            isOfAgent={agent !== undefined}
            open={open?.list === list ? open : undefined}
            onOpen={setOpen}
            onChange={(next) => {
              setOpen(undefined);
              update({ ...rules, [list]: next });
            }}
          />
        ))
      )}
      {draft === null ? null : (
        <div className="sticky bottom-0 -mb-4 flex flex-wrap items-center justify-end gap-2 rounded-t border border-line bg-surface px-4 py-2">
          <span role="status" className="mr-auto text-sm max-sm:w-full">
            Not saved: {changesText(countChanges(draft.base, draft.rules))}
            {open === undefined ? null : '. Apply or cancel the open rule first'}
          </span>
          <Button
            kind="danger"
            onClick={() => {
              setOpen(undefined);
              setIssues(noIssues);
              setJsonProblem(undefined);
              preview.reset();
              save.reset();
              setDraft(agent, null);
            }}
          >
            Discard
          </Button>
          <Button
            kind="primary"
            disabled={
              isConflict || open !== undefined || jsonProblem !== undefined || preview.isPending
            }
            onClick={() => {
              save.reset();
              preview.mutate();
            }}
          >
            {preview.isPending ? 'Checking …' : 'Review and save'}
          </Button>
        </div>
      )}
      {reviewed === undefined || draft === null ? null : (
        <Review
          draft={draft}
          preview={reviewed}
          isSaving={save.isPending}
          onSave={() => save.mutate(draft)}
          onClose={() => setReviewed(undefined)}
        />
      )}
    </>
  );
}

/** The address may name a rule of a version that is no longer the current one. */
function Moved({ policy }: { readonly policy: Policy }) {
  const [search] = useSearchParams();
  const version = Number(search.get('version') ?? policy.version);
  if (!search.has('rule') || version === policy.version) return null;
  const query = new URLSearchParams({ version: String(version) });
  if (policy.agent !== undefined) query.set('agent', policy.agent);
  return (
    <Note tone="waiting">
      This address names {search.get('list')} rule {search.get('rule')} of version {version}. The
      policy is at version {policy.version} now, so the rule may have another number.{' '}
      <Link href={`/policy/history?${query.toString()}`} className="underline">
        Show version {version}
      </Link>
    </Note>
  );
}

interface RuleListProps {
  readonly list: PolicyList;
  readonly rules: readonly (ToolRule | ApproverRule)[];
  readonly saved: readonly (ToolRule | ApproverRule)[];
  readonly issues: RuleIssues;
  readonly mayEdit: boolean;
  readonly isOfAgent: boolean;
  readonly open: Open | undefined;
  readonly onOpen: (open: Open | undefined) => void;
  readonly onChange: (rules: readonly (ToolRule | ApproverRule)[]) => void;
}

function RuleList(props: RuleListProps) {
  const { list, rules, saved, issues, mayEdit, isOfAgent, open, onOpen, onChange } = props;
  const [search] = useSearchParams();
  const target = search.get('list') === list ? Number(search.get('rule')) - 1 : -1;
  const known = new Set(saved.map((rule) => JSON.stringify(rule)));
  const form = (rule: ToolRule | ApproverRule, index: number) => (
    <RuleForm
      list={list}
      rule={rule}
      isOfAgent={isOfAgent}
      onCancel={() => onOpen(undefined)}
      onApply={(next) => onChange(rules.toSpliced(index, 1, next))}
    />
  );
  return (
    <Section
      title={`${about[list].title} (${rules.length})`}
      actions={
        mayEdit ? (
          <Button
            size="sm"
            aria-label={`Add a rule to ${about[list].title}`}
            onClick={() => onOpen({ list, index: rules.length, isNew: true })}
          >
            <Plus aria-hidden size={14} /> Add a rule
          </Button>
        ) : undefined
      }
    >
      <p className="text-sm text-muted">{about[list].text}</p>
      <ol className="-mx-4 mt-2 -mb-4 flex flex-col">
        {rules.map((rule, index) => (
          <Row
            key={index}
            list={list}
            index={index}
            isTarget={index === target}
            isNew={!known.has(JSON.stringify(rule))}
            problems={issues.byRule.get(ruleKey(list, index)) ?? []}
          >
            {open?.index === index && !open.isNew ? (
              form(rule, index)
            ) : (
              <>
                <RuleSummary rule={rule} />
                {mayEdit ? (
                  <div className="flex shrink-0">
                    <IconButton
                      label={`Edit ${list} rule ${index + 1}`}
                      onClick={() => onOpen({ list, index, isNew: false })}
                    >
                      <Pencil aria-hidden size={14} />
                    </IconButton>
                    <IconButton
                      label={`Remove ${list} rule ${index + 1}`}
                      onClick={() => onChange(rules.toSpliced(index, 1))}
                    >
                      <Trash2 aria-hidden size={14} />
                    </IconButton>
                  </div>
                ) : null}
              </>
            )}
          </Row>
        ))}
        {open?.isNew === true ? (
          <Row list={list} index={rules.length} isTarget={false} isNew problems={[]}>
            {form(
              list === 'approvers' ? { tool: '', quorum: 1, notRequester: false } : { tool: '' },
              rules.length,
            )}
          </Row>
        ) : null}
      </ol>
    </Section>
  );
}

interface RowProps {
  readonly list: PolicyList;
  readonly index: number;
  readonly isTarget: boolean;
  /** Not part of the saved policy. */
  readonly isNew: boolean;
  readonly problems: readonly { readonly path: string; readonly message: string }[];
  readonly children: React.ReactNode;
}

function Row({ list, index, isTarget, isNew, problems, children }: RowProps) {
  const row = useRef<HTMLLIElement>(null);
  const [search] = useSearchParams();
  const isWrong = problems.length > 0;
  useEffect(() => {
    if (isTarget || isWrong) row.current?.scrollIntoView({ block: 'center' });
  }, [isTarget, isWrong]);
  const query = new URLSearchParams(search);
  query.delete('version');
  query.set('list', list);
  query.set('rule', String(index + 1));
  return (
    <li
      ref={row}
      aria-current={isTarget ? 'location' : undefined}
      className={cx(
        'flex flex-col gap-1 border-t border-line px-4 py-1',
        isTarget && 'bg-selected',
      )}
    >
      <div className="flex items-start gap-3">
        <Link
          href={`/policy?${query.toString()}`}
          title={`The address of ${list} rule ${index + 1}`}
          className={cx(
            'flex h-8 w-8 shrink-0 items-center justify-end text-xs hover:underline',
            isNew ? 'font-semibold text-waiting' : 'text-faint',
          )}
        >
          {isNew ? <span title="Not saved">{index + 1} •</span> : index + 1}
        </Link>
        <div className="flex min-w-0 flex-1 items-start gap-2">{children}</div>
      </div>
      {isWrong ? (
        <ul role="alert" className="ml-11 text-sm text-failed">
          {problems.map(({ path, message }) => (
            <li key={path}>
              {path === '' ? '' : `${path}: `}
              {message}
            </li>
          ))}
        </ul>
      ) : null}
    </li>
  );
}

interface JsonEditorProps {
  readonly rules: Rules;
  readonly isReadOnly: boolean;
  readonly issues: RuleIssues;
  readonly problem: string | undefined;
  readonly onChange: (rules: Rules | undefined, problem: string | undefined) => void;
}

function JsonEditor({ rules, isReadOnly, issues, problem, onChange }: JsonEditorProps) {
  const [text, setText] = useState(() => jsonOf(rules));
  const current = jsonOf(rules);
  /** What this editor has made of the text: anything else comes from outside, and replaces the text. */
  const own = useRef(current);
  useEffect(() => {
    if (current === own.current) return;
    own.current = current;
    setText(current);
  }, [current]);
  const atRules = [...issues.byRule].flatMap(([key, each]) =>
    each.map(({ path, message }) => `${key}${path === '' ? '' : `.${path}`}: ${message}`),
  );
  return (
    <Field
      label="All rules as JSON"
      hint="The lists deny, ask, allow and approvers"
      error={problem ?? (atRules.length === 0 ? undefined : atRules.join('\n'))}
    >
      {(field) => (
        <TextArea
          {...field}
          className="min-h-[50vh] font-mono text-xs"
          spellCheck={false}
          readOnly={isReadOnly}
          value={text}
          onChange={(event) => {
            setText(event.target.value);
            const parsed = parseRules(event.target.value);
            if ('problem' in parsed) return onChange(undefined, parsed.problem);
            own.current = jsonOf(parsed);
            onChange(parsed, undefined);
          }}
        />
      )}
    </Field>
  );
}
