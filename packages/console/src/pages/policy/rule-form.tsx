/** Edits one rule. The change is part of the draft when it is applied. */
import { defined, isObject, type Role, roleNames } from '@relay/protocol/wire';
import { Plus, X } from 'lucide-react';
import { type FormEvent, useId, useState } from 'react';
import { parseExactly } from '../../text/exact-json.ts';
import { Button, IconButton } from '../../ui/button.tsx';
import { Field, Input, Select, Switch, TextArea } from '../../ui/form.tsx';
import { AgentSelect } from './agent-select.tsx';
import type { ApproverRule, PolicyList, ToolRule } from './draft.ts';
import { type Kind, kindWords, useKinds } from './rule-summary.tsx';
import { useTools } from './use-policy.ts';

interface RuleFormProps {
  readonly list: PolicyList;
  readonly rule: ToolRule | ApproverRule;
  /** The policy of one agent: its rules name no other. */
  readonly isOfAgent: boolean;
  readonly onApply: (rule: ToolRule | ApproverRule) => void;
  readonly onCancel: () => void;
}

type Match = 'every' | 'patterns' | 'exact';

export function RuleForm({ list, rule, isOfAgent, onApply, onCancel }: RuleFormProps) {
  const [tool, setTool] = useState(rule.tool);
  const [patterns, setPatterns] = useState(() => Object.entries(rule.params ?? {}));
  const given = 'exact' in rule ? rule.exact : undefined;
  const [exact, setExact] = useState(() => JSON.stringify(given ?? {}, null, 2));
  const [match, setMatch] = useState<Match>(
    given !== undefined ? 'exact' : rule.params === undefined ? 'every' : 'patterns',
  );
  const [approvers, setApprovers] = useState(() => approversOf(rule));
  const [problem, setProblem] = useState<string>();
  const { data: tools } = useTools();
  const ids = useId();

  const apply = (event: FormEvent) => {
    event.preventDefault();
    const conditions = conditionsOf(match, patterns, exact);
    if ('problem' in conditions) return setProblem(conditions.problem);
    const changed = { tool: tool.trim(), ...conditions };
    if (list !== 'approvers') return onApply(changed);
    const who = whoOf(approvers);
    if ('problem' in who) return setProblem(who.problem);
    const { params } = changed;
    onApply({ ...defined({ params }), tool: changed.tool, ...who });
  };
  return (
    <form onSubmit={apply} className="flex min-w-0 flex-1 flex-col gap-3">
      <div className="grid gap-3 sm:grid-cols-2">
        <Field label="Tool" hint="Its exact name; actions are action:name">
          {(field) => (
            <Input
              {...field}
              className="font-mono"
              list={`${ids}-tools`}
              autoComplete="off"
              spellCheck={false}
              autoFocus
              required
              value={tool}
              onChange={(event) => setTool(event.target.value)}
            />
          )}
        </Field>
        <datalist id={`${ids}-tools`}>
          {tools?.tools.map(({ name }) => (
            <option key={name} value={name} />
          ))}
        </datalist>
        <Field label="Which calls">
          {(field) => (
            <Select
              {...field}
              value={match}
              onChange={(event) => {
                const next = event.target.value as Match;
                setMatch(next);
                if (next === 'patterns' && patterns.length === 0) setPatterns([['', '']]);
              }}
            >
              <option value="every">Every call of the tool</option>
              <option value="patterns">Calls whose parameters match patterns</option>
              {list === 'approvers' ? null : (
                <option value="exact">Calls with exactly these arguments</option>
              )}
            </Select>
          )}
        </Field>
      </div>
      {match === 'patterns' ? (
        <Patterns list={list} tool={tool} patterns={patterns} onChange={setPatterns} />
      ) : null}
      {match === 'exact' ? (
        <Field label="Arguments" hint="JSON; taken literally, without patterns">
          {(field) => (
            <TextArea
              {...field}
              rows={4}
              className="font-mono"
              spellCheck={false}
              value={exact}
              onChange={(event) => setExact(event.target.value)}
            />
          )}
        </Field>
      ) : null}
      {list === 'approvers' ? (
        <Approvers value={approvers} onChange={setApprovers} isOfAgent={isOfAgent} />
      ) : null}
      {problem === undefined ? null : (
        <p role="alert" className="text-sm text-failed">
          {problem}
        </p>
      )}
      <div className="flex gap-2">
        <Button type="submit" kind="primary">
          Apply
        </Button>
        <Button onClick={onCancel}>Cancel</Button>
      </div>
    </form>
  );
}

/** Kinds make a rule that allows narrower, and all others wider. */
function kindHint(kind: Kind, isAllow: boolean): string {
  switch (kind) {
    case 'command':
      return isAllow
        ? 'every command of the line must match. ls* covers ls and its arguments, and not lsof'
        : 'one matching command in the line is enough, also behind sudo or in another order of options';
    case 'path':
      return isAllow
        ? 'the path and what it leads to must both match, such as src/**/*.ts'
        : 'the path, or what it leads to';
    case 'url':
      return 'scheme and host are matched apart from the path';
  }
}

interface PatternsProps {
  readonly list: PolicyList;
  readonly tool: string;
  readonly patterns: readonly (readonly [string, string])[];
  readonly onChange: (patterns: [string, string][]) => void;
}

function Patterns({ list, tool, patterns, onChange }: PatternsProps) {
  const { data } = useTools();
  const kinds = useKinds(tool);
  const ids = useId();
  const schema = data?.tools.find(({ name }) => name === tool)?.inputSchema ?? {};
  const names = Object.keys(isObject(schema['properties']) ? schema['properties'] : {});
  const change = (index: number, [name, pattern]: readonly [string, string]) =>
    onChange(patterns.map(([...each], at) => (at === index ? [name, pattern] : each)));
  return (
    <fieldset className="flex flex-col gap-2">
      <legend className="mb-1 text-sm font-medium">All of these must match</legend>
      <datalist id={`${ids}-names`}>
        {names.map((name) => (
          <option key={name} value={name} />
        ))}
      </datalist>
      {patterns.map(([name, pattern], index) => {
        const kind = kinds[name];
        return (
          <div key={index} className="flex flex-col gap-1">
            <div className="flex flex-wrap items-center gap-2">
              <Input
                aria-label={`Parameter ${index + 1}`}
                placeholder="parameter"
                className="flex-1 basis-0 font-mono sm:max-w-52"
                list={`${ids}-names`}
                autoComplete="off"
                spellCheck={false}
                value={name}
                onChange={(event) => change(index, [event.target.value, pattern])}
              />
              <Input
                aria-label={`Pattern of parameter ${index + 1}`}
                placeholder="pattern, such as docs/**"
                className="order-last min-w-full font-mono sm:order-none sm:min-w-0 sm:flex-1 sm:basis-0"
                autoComplete="off"
                spellCheck={false}
                value={pattern}
                onChange={(event) => change(index, [name, event.target.value])}
              />
              <IconButton
                label={`Remove parameter ${index + 1}`}
                onClick={() =>
                  onChange(patterns.flatMap(([...each], at) => (at === index ? [] : [each])))
                }
              >
                <X aria-hidden size={16} />
              </IconButton>
            </div>
            <p className="text-xs text-muted">
              {kind === undefined
                ? 'text: * stands for any characters'
                : `${kindWords[kind]}: ${kindHint(kind, list === 'allow')}`}
            </p>
          </div>
        );
      })}
      <div>
        <Button
          size="sm"
          onClick={() => onChange([...patterns.map(([...each]) => each), ['', '']])}
        >
          <Plus aria-hidden size={14} /> Add a parameter
        </Button>
      </div>
    </fieldset>
  );
}

type Who = 'anyone' | 'roles' | 'groups' | 'keys';

interface ApproversValue {
  readonly who: Who;
  readonly roles: readonly Role[];
  /** Separated by commas or spaces. */
  readonly groups: string;
  readonly keys: string;
  readonly quorum: string;
  readonly notRequester: boolean;
  readonly agent: string | undefined;
}

function approversOf(rule: ToolRule | ApproverRule): ApproversValue {
  const {
    roles,
    groups,
    keys,
    quorum = 1,
    notRequester = false,
    agent,
  }: Partial<ApproverRule> = rule;
  const who: Who =
    roles !== undefined
      ? 'roles'
      : groups !== undefined
        ? 'groups'
        : keys !== undefined
          ? 'keys'
          : 'anyone';
  return {
    who,
    roles: roles ?? [],
    groups: (groups ?? []).join(', '),
    keys: (keys ?? []).join(', '),
    quorum: String(quorum),
    notRequester,
    agent,
  };
}

interface ApproversProps {
  readonly value: ApproversValue;
  readonly onChange: (value: ApproversValue) => void;
  readonly isOfAgent: boolean;
}

function Approvers({ value, onChange, isOfAgent }: ApproversProps) {
  const { who, roles, groups, keys, quorum, notRequester, agent } = value;
  const set = (change: Partial<ApproversValue>) => onChange({ ...value, ...change });
  return (
    <div className="grid gap-3 sm:grid-cols-2">
      <Field label="Who may decide">
        {(field) => (
          <Select
            {...field}
            value={who}
            onChange={(event) => set({ who: event.target.value as Who })}
          >
            <option value="anyone">Anyone who may approve</option>
            <option value="roles">Keys with a role</option>
            <option value="groups">Members of a group</option>
            <option value="keys">Named keys</option>
          </Select>
        )}
      </Field>
      {who === 'roles' ? (
        <fieldset className="flex flex-wrap content-start gap-x-4 gap-y-1">
          <legend className="mb-1 text-sm font-medium">Roles</legend>
          {roleNames.map((role) => (
            <label
              key={role}
              className="inline-flex items-center gap-1.5 text-sm pointer-coarse:min-h-11"
            >
              <input
                type="checkbox"
                checked={roles.includes(role)}
                onChange={(event) =>
                  set({
                    roles: event.target.checked
                      ? [...roles, role]
                      : roles.filter((each) => each !== role),
                  })
                }
              />
              {role}
            </label>
          ))}
        </fieldset>
      ) : null}
      {who === 'groups' ? (
        <Field label="Groups" hint="Separated by commas. Keys name the groups of their owner">
          {(field) => (
            <Input
              {...field}
              value={groups}
              onChange={(event) => set({ groups: event.target.value })}
            />
          )}
        </Field>
      ) : null}
      {who === 'keys' ? (
        <Field label="Ids of keys" hint="Separated by commas. Settings, Keys shows them">
          {(field) => (
            <Input
              {...field}
              className="font-mono"
              value={keys}
              onChange={(event) => set({ keys: event.target.value })}
            />
          )}
        </Field>
      ) : null}
      <Field label="Persons who must approve" hint="1 to 10">
        {(field) => (
          <Input
            {...field}
            type="number"
            min={1}
            max={10}
            required
            value={quorum}
            onChange={(event) => set({ quorum: event.target.value })}
          />
        )}
      </Field>
      {isOfAgent ? null : (
        <Field label="Agent" hint="Only its calls, and those of agents that it starts">
          {({ id }) => (
            <AgentSelect
              id={id}
              agent={agent}
              none="All agents"
              onChange={(next) => set({ agent: next })}
            />
          )}
        </Field>
      )}
      <Switch
        label="The person who started the run may not decide"
        checked={notRequester}
        onChange={(next) => set({ notRequester: next })}
      />
    </div>
  );
}

type Problem = { readonly problem: string };

function conditionsOf(
  match: Match,
  patterns: readonly (readonly [string, string])[],
  exact: string,
): Pick<ToolRule, 'params' | 'exact'> | Problem {
  switch (match) {
    case 'every':
      return {};
    case 'patterns': {
      const named = patterns.map(([name, pattern]) => [name.trim(), pattern] as const);
      if (named.length === 0) return { problem: 'Name a parameter, or choose every call.' };
      if (named.some(([name]) => name === '')) return { problem: 'A parameter has no name.' };
      const params = new Map(named);
      if (params.size < named.length) return { problem: 'A parameter is named twice.' };
      return { params: Object.fromEntries(params) };
    }
    case 'exact': {
      const value = parsed(exact);
      if (!isObject(value)) return { problem: 'The arguments must be an object in JSON.' };
      // Checked by the server: only what JSON can say comes from a text in JSON.
      return { exact: value as NonNullable<ToolRule['exact']> };
    }
  }
}

function parsed(text: string): unknown {
  try {
    return parseExactly(text);
  } catch {
    return undefined;
  }
}

function whoOf(value: ApproversValue): Omit<ApproverRule, 'tool' | 'params'> | Problem {
  const { who, roles, notRequester, agent } = value;
  const rest = { quorum: Number(value.quorum), notRequester, ...defined({ agent }) };
  switch (who) {
    case 'anyone':
      return rest;
    case 'roles':
      return roles.length === 0 ? { problem: 'Choose a role.' } : { ...rest, roles: [...roles] };
    case 'groups':
    case 'keys': {
      const names = value[who].split(/[,\s]+/).filter((name) => name !== '');
      return names.length === 0 ? { problem: `Name the ${who}.` } : { ...rest, [who]: names };
    }
  }
}
