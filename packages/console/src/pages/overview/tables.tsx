/** Which tools ask, what fails, and which agents and models do the work. */
import type { Stats, ToolPermission } from '@relay/protocol/wire';
import type { ReactNode } from 'react';
import { Link } from 'wouter';
import { useMay } from '../../api/account.tsx';
import { SafeText } from '../../text/safe-text.tsx';
import { buttonClass } from '../../ui/button.tsx';
import { cx } from '../../ui/cx.ts';
import { Section } from '../../ui/layout.tsx';
import { Ago, formatCount, formatDuration, shortId } from '../../ui/values.tsx';
import type { Range } from './ranges.ts';
import { costOf } from './words.ts';

interface TablesProps {
  readonly stats: Stats;
  readonly range: Range;
}

export function Tables({ stats, range }: TablesProps) {
  return (
    <div className="grid gap-4 min-[1400px]:grid-cols-2">
      <Tools tools={stats.tools} />
      <Failures failures={stats.failures} range={range} />
      <Agents agents={stats.agents} range={range} />
      <Models models={stats.models} />
    </div>
  );
}

function Tools({ tools }: { readonly tools: Stats['tools'] }) {
  const mayWriteRules = useMay('admin');
  return (
    <Table
      title="Requests by tool"
      empty="No tool has asked for an approval."
      columns={['Tool', '#Requests', '#Approved', '#Denied', '#Median wait', 'Suggested rule']}
      rows={tools.map(({ tool, asks, approved, denied, medianWaitMs, suggestedRule }) => ({
        key: tool,
        cells: [
          <code key="tool" className="font-mono text-xs break-all">
            <SafeText text={tool} maxLength={100} />
          </code>,
          formatCount(asks),
          formatCount(approved),
          formatCount(denied),
          medianWaitMs === null ? '–' : formatDuration(medianWaitMs),
          suggestedRule === undefined ? (
            '–'
          ) : (
            <SuggestedRule key="rule" rule={suggestedRule} mayWrite={mayWriteRules} />
          ),
        ],
      }))}
    />
  );
}

/** The rule is only opened in the editor of the policy, which shows what it would change. */
function SuggestedRule({
  rule,
  mayWrite,
}: {
  readonly rule: ToolPermission;
  readonly mayWrite: boolean;
}) {
  const patterns = Object.entries(rule.params ?? rule.exact ?? {});
  const text =
    patterns.length === 0
      ? 'every call'
      : patterns
          .map(
            ([name, value]) =>
              `${name}: ${typeof value === 'string' ? value : JSON.stringify(value)}`,
          )
          .join(', ');
  return (
    <span className="flex items-center justify-between gap-2">
      <code className="min-w-24 font-mono text-xs break-all">
        <SafeText text={text} maxLength={160} />
      </code>
      {mayWrite ? (
        <Link
          href={`/policy?suggest=${encodeURIComponent(JSON.stringify(rule))}`}
          title="Opens the policy with this rule. Nothing changes before you save it."
          className={buttonClass('plain', 'sm')}
        >
          Allow this …
        </Link>
      ) : null}
    </span>
  );
}

function Failures({
  failures,
  range,
}: {
  readonly failures: Stats['failures'];
  readonly range: Range;
}) {
  return (
    <Table
      title="Failures"
      empty="No run has failed."
      columns={['Code', '#Runs', 'Last message', 'Last run']}
      rows={failures.map(({ code, count, message, lastRunId, lastAt }) => ({
        key: code,
        cells: [
          <code key="code" className="font-mono text-xs text-failed">
            {code}
          </code>,
          <Link key="count" href={`/runs?status=failed&since=${range.name}`} className={link}>
            {formatCount(count)}
          </Link>,
          <span key="message" className="line-clamp-2 min-w-40 break-words">
            <SafeText text={message} maxLength={300} />
          </span>,
          <span key="run" className="whitespace-nowrap">
            <Link href={`/runs/${lastRunId}`} className={cx(link, 'font-mono text-xs')}>
              {shortId(lastRunId)}
            </Link>{' '}
            <span className="text-xs text-muted">
              <Ago at={lastAt} />
            </span>
          </span>,
        ],
      }))}
    />
  );
}

function Agents({ agents, range }: { readonly agents: Stats['agents']; readonly range: Range }) {
  return (
    <Table
      title="Agents"
      empty="No run has ended."
      columns={['Agent', '#Runs that ended', '#Cost']}
      rows={agents.map(({ agent, runs, ...costs }) => ({
        key: agent,
        cells: [
          <Link
            key="agent"
            href={`/runs?agent=${encodeURIComponent(agent)}&since=${range.name}`}
            className={link}
          >
            <SafeText text={agent} maxLength={100} />
          </Link>,
          formatCount(runs),
          costOf(costs),
        ],
      }))}
    />
  );
}

function Models({ models }: { readonly models: Stats['models'] }) {
  return (
    <Table
      title="Models"
      empty="No run has ended."
      columns={['Model', '#Runs that ended', '#Input tokens', '#Output tokens', '#Cost']}
      rows={models.map(({ model, runs, tokens, ...costs }) => ({
        key: model,
        cells: [
          <SafeText key="model" text={model} maxLength={100} />,
          formatCount(runs),
          formatCount(tokens.input),
          formatCount(tokens.output),
          costOf(costs),
        ],
      }))}
    />
  );
}

const link = 'underline decoration-line-strong underline-offset-2 hover:decoration-current';

interface TableProps {
  readonly title: string;
  /** With `#` in front: a column of numbers. */
  readonly columns: readonly string[];
  readonly rows: readonly { readonly key: string; readonly cells: readonly ReactNode[] }[];
  readonly empty: string;
}

function Table({ title, columns, rows, empty }: TableProps) {
  if (rows.length === 0) {
    return (
      <Section title={title}>
        <p className="text-sm text-muted">{empty}</p>
      </Section>
    );
  }
  return (
    <Section title={title}>
      {/* Wider than a phone: it can have the focus, so that a keyboard can scroll it. */}
      <div tabIndex={0} role="region" aria-label={title} className="-m-4 overflow-x-auto">
        <table className="w-full text-left text-sm">
          <thead>
            <tr className="text-xs text-muted">
              {columns.map((column) => (
                <th
                  key={column}
                  scope="col"
                  className={cx(
                    'h-9 px-4 font-medium whitespace-nowrap',
                    column.startsWith('#') && 'text-right',
                  )}
                >
                  {column.replace(/^#/, '')}
                </th>
              ))}
            </tr>
          </thead>
          <tbody>
            {rows.map(({ key, cells }) => (
              <tr key={key} className="h-9 border-t border-line">
                {cells.map((cell, index) => (
                  <td
                    key={index}
                    className={cx(
                      'px-4 py-1.5',
                      columns[index]?.startsWith('#') === true && 'text-right whitespace-nowrap',
                    )}
                  >
                    {cell}
                  </td>
                ))}
              </tr>
            ))}
          </tbody>
        </table>
      </div>
    </Section>
  );
}
