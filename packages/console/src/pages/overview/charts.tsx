/** What happened over time, as charts. Each is also a sentence, and can be shown as a table. */
import type { Stats } from '@relay/protocol/wire';
import { ChartColumn, Table2 } from 'lucide-react';
import { type ReactNode, useMemo, useState } from 'react';
import { IconButton } from '../../ui/button.tsx';
import { Section } from '../../ui/layout.tsx';
import { formatCost, formatCount, formatDuration } from '../../ui/values.tsx';
import { type Line, TimeChart, type TimeChartProps } from './time-chart.tsx';
import {
  approvalsSentence,
  costSentence,
  firstTokenSentence,
  runsSentence,
  tokensSentence,
  waitSentence,
} from './words.ts';

type Bucket = Stats['buckets'][number];

const countSteps = [1, 2, 5].flatMap((step) =>
  Array.from({ length: 12 }, (_, power) => step * 10 ** power),
);
const counts = countSteps.toSorted((a, b) => a - b);
const amounts = counts.map((step) => step / 1_000_000);
const second = 1_000;
const minute = 60 * second;
const hour = 60 * minute;
const day = 24 * hour;
const durations = [
  1,
  2,
  5,
  10,
  20,
  50,
  100,
  200,
  500,
  ...[1, 2, 5, 10, 15, 30].map((each) => each * second),
  ...[1, 2, 5, 10, 15, 30].map((each) => each * minute),
  ...[1, 2, 4, 6, 12].map((each) => each * hour),
  ...[1, 2, 5, 10, 20, 50, 100].map((each) => each * day),
];

/** Small amounts in full: an axis that says "< $0.01" three times says nothing. */
function formatAmount(usd: number): string {
  return usd > 0 && usd < 0.01 ? `$${usd.toPrecision(1)}` : formatCost(usd);
}

export function Charts({ stats }: { readonly stats: Stats }) {
  const { buckets, bucket } = stats;
  const times = useMemo(() => buckets.map(({ at }) => Date.parse(at)), [buckets]);
  const formatTime = timeFormats[bucket];
  const line = (
    label: string,
    ink: Line['ink'],
    value: (bucket: Bucket) => number | null,
    isDashed = false,
  ): Line => ({ label, ink, isDashed, values: buckets.map(value) });
  const shared = { times, formatTime };
  return (
    <div className="grid gap-4 min-[900px]:grid-cols-2 min-[1800px]:grid-cols-3">
      <Chart
        title="Runs that ended"
        sentence={runsSentence(stats, (at) => formatTime(Date.parse(at)))}
        {...shared}
        shape="bars"
        increments={counts}
        format={formatCount}
        lines={[
          line('Completed', 'done', ({ runs }) => runs.completed),
          line('Failed', 'failed', ({ runs }) => runs.failed),
          line('Canceled', 'ended', ({ runs }) => runs.canceled),
        ]}
      />
      <Chart
        title="Approvals"
        sentence={approvalsSentence(stats)}
        {...shared}
        shape="lines"
        increments={counts}
        format={formatCount}
        lines={[
          line('Requested', 'waiting', ({ approvals }) => approvals.requested, true),
          line('Approved', 'done', ({ approvals }) => approvals.approved),
          line('Denied', 'failed', ({ approvals }) => approvals.denied),
          line('Expired', 'ended', ({ approvals }) => approvals.expired),
        ]}
      />
      <Chart
        title="Time until a person decided"
        sentence={waitSentence(stats)}
        {...shared}
        shape="lines"
        increments={durations}
        format={formatDuration}
        lines={[
          line('Half within', 'text', ({ approvalWaitMs }) => approvalWaitMs?.p50 ?? null),
          line('95 % within', 'faint', ({ approvalWaitMs }) => approvalWaitMs?.p95 ?? null, true),
        ]}
      />
      <Chart
        title="Time to the first token"
        sentence={firstTokenSentence(stats)}
        {...shared}
        shape="lines"
        increments={durations}
        format={formatDuration}
        lines={[
          line('Half within', 'text', ({ firstTokenMs }) => firstTokenMs?.p50 ?? null),
          line('95 % within', 'faint', ({ firstTokenMs }) => firstTokenMs?.p95 ?? null, true),
        ]}
      />
      <Chart
        title="Tokens"
        sentence={tokensSentence(stats)}
        {...shared}
        shape="bars"
        increments={counts}
        format={formatCount}
        lines={[
          line('Input', 'ended', ({ tokens }) => tokens.input),
          line('Output', 'text', ({ tokens }) => tokens.output),
        ]}
      />
      <Chart
        title="Cost"
        sentence={costSentence(stats)}
        {...shared}
        shape="bars"
        increments={amounts}
        format={formatAmount}
        lines={[line('Cost', 'text', ({ costUsd }) => costUsd)]}
      />
    </div>
  );
}

interface ChartProps extends TimeChartProps {
  readonly title: string;
  readonly sentence: string;
}

function Chart({ title, sentence, ...chart }: ChartProps) {
  const [isTable, setTable] = useState(false);
  const Icon = isTable ? ChartColumn : Table2;
  return (
    <Section
      title={title}
      actions={
        <IconButton
          label={isTable ? `Show ${title} as a chart` : `Show ${title} as a table`}
          onClick={() => setTable(!isTable)}
        >
          <Icon aria-hidden size={16} />
        </IconButton>
      }
    >
      <p className="mb-2 min-h-5 text-sm text-muted">{sentence}</p>
      {isTable ? <ChartTable title={title} {...chart} /> : <TimeChart {...chart} />}
    </Section>
  );
}

function ChartTable({ title, times, lines, format, formatTime }: Omit<ChartProps, 'sentence'>) {
  const cell = (value: number | null | undefined): ReactNode =>
    value === null || value === undefined ? '–' : format(value);
  return (
    // As high as the chart. It can have the focus, so that a keyboard can scroll it.
    <div
      tabIndex={0}
      role="region"
      aria-label={`${title}, as a table`}
      className="h-50 overflow-auto"
    >
      <table className="w-full text-left text-sm">
        <thead>
          <tr className="text-xs text-muted">
            <th scope="col" className="font-medium">
              From
            </th>
            {lines.map(({ label }) => (
              <th key={label} scope="col" className="text-right font-medium">
                {label}
              </th>
            ))}
          </tr>
        </thead>
        <tbody>
          {times.map((time, at) => (
            <tr key={time} className="border-t border-line">
              <th scope="row" className="py-1 font-normal whitespace-nowrap">
                {formatTime(time)}
              </th>
              {lines.map(({ label, values }) => (
                <td key={label} className="text-right whitespace-nowrap">
                  {cell(values[at])}
                </td>
              ))}
            </tr>
          ))}
        </tbody>
      </table>
    </div>
  );
}

const clock = new Intl.DateTimeFormat(undefined, { hour: '2-digit', minute: '2-digit' });
const dateAndClock = new Intl.DateTimeFormat(undefined, {
  weekday: 'short',
  day: 'numeric',
  month: 'short',
  hour: '2-digit',
  minute: '2-digit',
});
/** The server counts days in UTC. */
const utcDate = new Intl.DateTimeFormat(undefined, {
  day: 'numeric',
  month: 'short',
  timeZone: 'UTC',
});

const timeFormats: Readonly<Record<Stats['bucket'], (ms: number) => string>> = {
  minute: (ms) => clock.format(ms),
  hour: (ms) => dateAndClock.format(ms),
  day: (ms) => `${utcDate.format(ms)} (UTC)`,
};
