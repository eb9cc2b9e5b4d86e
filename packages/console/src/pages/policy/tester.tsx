/** How the rules decide a call, and which one decides. Nothing is executed. */
import { defined, type ExplainBody, type Explanation, isObject } from '@relay/protocol/wire';
import { keepPreviousData, useQuery } from '@tanstack/react-query';
import { useEffect, useRef, useState } from 'react';
import { Link, useSearchParams } from 'wouter';
import { useMay } from '../../api/account.tsx';
import { client } from '../../api/client.ts';
import { CallView } from '../../call/call-view.tsx';
import { SchemaForm } from '../../call/schema-form.tsx';
import { parseExactly } from '../../text/exact-json.ts';
import { SafeText } from '../../text/safe-text.tsx';
import { Button } from '../../ui/button.tsx';
import { Field, Input, TextArea } from '../../ui/form.tsx';
import { PageBody, Section } from '../../ui/layout.tsx';
import { ErrorNotice, Note } from '../../ui/notice.tsx';
import { addressOfRule } from '../../call/rule-address.ts';
import { AgentSelect } from './agent-select.tsx';
import { DecisionBadge } from './decision-badge.tsx';
import { approversText } from './rule-summary.tsx';
import { useDraft, useTools } from './use-policy.ts';

interface Call {
  readonly tool: string;
  readonly params: Readonly<Record<string, unknown>>;
  readonly agent: string | undefined;
}

/** The call that the address names. */
function callOf(search: URLSearchParams): Call | undefined {
  const tool = search.get('tool');
  const params = parsed(search.get('params') ?? '{}');
  if (tool === null || !isObject(params)) return undefined;
  return { tool, params, agent: search.get('agent') ?? undefined };
}

function parsed(text: string): unknown {
  try {
    return parseExactly(text);
  } catch {
    return undefined;
  }
}

export function Tester() {
  const [search, setSearch] = useSearchParams();
  const call = callOf(search);
  const { data } = useTools();
  const [tool, setTool] = useState(call?.tool ?? '');
  const [params, setParams] = useState<unknown>(call?.params ?? {});
  const [text, setText] = useState(() => JSON.stringify(call?.params ?? {}, null, 2));
  const [isJson, setJson] = useState(false);
  const agent = search.get('agent') ?? undefined;
  const drafts = useDrafts(agent);
  const schema = data?.tools.find(({ name }) => name === tool)?.inputSchema;
  const isForm = schema !== undefined && !isJson;
  const given = isForm ? params : parsed(text);
  const isComplete = tool !== '' && isObject(given);
  const chooseTool = (name: string) => {
    setTool(name);
    // The parameters of one tool are none of another.
    if (!(data?.tools.some((each) => each.name === name) ?? false)) return;
    setParams({});
    setText('{}');
  };
  const explain = (asAgent: string | undefined) => {
    if (!isComplete) return;
    setSearch(
      new URLSearchParams({ tool, params: JSON.stringify(given), ...defined({ agent: asAgent }) }),
    );
  };
  return (
    <PageBody>
      <p className="text-sm text-muted">
        Shows how the rules and grants of the tenant decide a call. Nothing is executed.
      </p>
      {drafts.length === 0 ? null : (
        <Note tone="waiting">
          Decided by your changes to the policy {drafts.map(whoseText).join(' and ')}, which are not
          saved yet. Runs still follow the saved rules.
        </Note>
      )}
      <div className="grid items-start gap-4 min-[900px]:grid-cols-2">
        <Section title="Call">
          <form
            className="flex flex-col gap-4"
            onSubmit={(event) => {
              event.preventDefault();
              explain(agent);
            }}
          >
            <Field label="Tool" hint="A tool of the server, a function tool, or action:name">
              {(field) => (
                <Input
                  {...field}
                  className="font-mono"
                  list="tester-tools"
                  autoComplete="off"
                  spellCheck={false}
                  required
                  value={tool}
                  onChange={(event) => chooseTool(event.target.value)}
                />
              )}
            </Field>
            <datalist id="tester-tools">
              {data?.tools.map(({ name }) => (
                <option key={name} value={name} />
              ))}
            </datalist>
            <Field label="Agent" hint="Its own policy counts besides that for all agents">
              {({ id }) => (
                <AgentSelect
                  id={id}
                  agent={agent}
                  none="The default agent"
                  onChange={(next) => {
                    if (isComplete) explain(next);
                    else setSearch(new URLSearchParams(defined({ agent: next })));
                  }}
                />
              )}
            </Field>
            {isForm ? (
              <SchemaForm key={tool} schema={schema} value={params} onChange={setParams} />
            ) : (
              <Field
                label="Parameters"
                hint="An object in JSON"
                error={isObject(given) ? undefined : 'This is not an object in JSON.'}
              >
                {(field) => (
                  <TextArea
                    {...field}
                    rows={6}
                    className="font-mono"
                    spellCheck={false}
                    value={text}
                    onChange={(event) => setText(event.target.value)}
                  />
                )}
              </Field>
            )}
            <div className="flex flex-wrap gap-2">
              <Button type="submit" kind="primary" disabled={!isComplete}>
                Explain
              </Button>
              {schema === undefined ? null : (
                <Button
                  aria-pressed={isJson}
                  onClick={() => {
                    if (isForm) setText(JSON.stringify(params, null, 2));
                    else if (isObject(given)) setParams(given);
                    setJson(isForm);
                  }}
                >
                  {isJson ? 'As a form' : 'As JSON'}
                </Button>
              )}
            </div>
          </form>
        </Section>
        {call === undefined ? null : <Result call={call} drafts={drafts} />}
      </div>
    </PageBody>
  );
}

type Drafts = NonNullable<ExplainBody['policies']>;

/** The agent that decides where the address names none. */
const defaultAgent = 'assistant';

/** The changes that count for the calls of an agent and that this person may test. */
function useDrafts(agent: string | undefined): Drafts {
  const mayTest = useMay('admin');
  const forAll = useDraft(undefined);
  const own = useDraft(agent ?? defaultAgent);
  if (!mayTest) return [];
  return [
    ...(forAll === null ? [] : [forAll.rules]),
    ...(own === null ? [] : [{ agent: agent ?? defaultAgent, ...own.rules }]),
  ].map((rules) => structuredClone(rules) as Drafts[number]);
}

function whoseText({ agent }: Drafts[number]): string {
  return agent === undefined ? 'for all agents' : `for ${agent}`;
}

function Result({ call, drafts }: { readonly call: Call; readonly drafts: Drafts }) {
  const { tool, params, agent } = call;
  const policies = drafts.length === 0 ? undefined : drafts;
  const explanation = useQuery({
    queryKey: ['explain', tool, params, agent ?? null, policies ?? null],
    queryFn: ({ signal }) =>
      client.permissions.explain(
        // Parsed from JSON.
        { tool, params: params as Record<string, never>, ...defined({ agent, policies }) },
        { signal },
      ),
    staleTime: 0,
    placeholderData: keepPreviousData,
  });
  const { data, error } = explanation;
  const result = useRef<HTMLDivElement>(null);
  useEffect(() => {
    // On a phone it is below the form.
    if (data !== undefined) result.current?.scrollIntoView({ block: 'nearest' });
  }, [data]);
  return (
    <Section title="Decision">
      <div ref={result} className="flex min-h-40 min-w-0 flex-col gap-4" aria-live="polite">
        {error === null ? null : (
          <ErrorNotice error={error} onRetry={() => void explanation.refetch()} />
        )}
        {data === undefined || error !== null ? null : <Decision call={call} data={data} />}
      </div>
    </Section>
  );
}

function Decision({ call, data }: { readonly call: Call; readonly data: Explanation }) {
  const { decision, reason, rule, approvers, parameters, problems = [], nearMisses = [] } = data;
  const address = rule === undefined ? undefined : addressOfRule(rule);
  return (
    <>
      <div className="flex flex-col gap-1.5">
        <div>
          <DecisionBadge decision={decision} />
        </div>
        <p className="text-sm">
          <SafeText text={reason} />
        </p>
        {address === undefined ? null : (
          <Link href={address.href} className="text-sm underline underline-offset-2">
            {address.label}
          </Link>
        )}
        {approvers === undefined ? null : (
          <p className="text-sm text-muted">
            {approversText(approvers)}
            {(approvers.quorum ?? 1) > 1 ? `, ${approvers.quorum} persons` : ''}
          </p>
        )}
      </div>
      {problems.length === 0 ? null : (
        <Note tone="waiting">
          The tool would refuse these parameters:
          <ul>
            {problems.map(({ path, message }) => (
              <li key={path}>
                {path === '' ? '' : `${path}: `}
                <SafeText text={message} />
              </li>
            ))}
          </ul>
        </Note>
      )}
      <NearMisses misses={nearMisses} />
      <CallView tool={call.tool} params={call.params} parameters={parameters} />
    </>
  );
}

/** Rules for the tool that a person may have expected to decide. */
function NearMisses({ misses }: { readonly misses: NonNullable<Explanation['nearMisses']> }) {
  if (misses.length === 0) return null;
  return (
    <section aria-label="Rules that do not match" className="flex flex-col gap-2">
      <h3 className="text-sm font-semibold">Rules for this tool that do not match</h3>
      <ul className="flex flex-col gap-2">
        {misses.map((miss) => {
          const { list, index, source, id = '', reason } = miss;
          const address = addressOfRule(miss);
          return (
            <li key={`${source} ${list} ${index} ${id}`} className="text-sm">
              {address === undefined ? (
                `${list} rule ${index + 1}`
              ) : (
                <Link href={address.href} className="underline underline-offset-2">
                  {address.label}
                </Link>
              )}
              <p className="text-muted">
                <SafeText text={reason} />
              </p>
            </li>
          );
        })}
      </ul>
    </section>
  );
}
