import type { Run, RunsQuery, StoredEvent } from '@relay/sdk';
import { Option } from 'commander';
import { type CliCommand, type Context, takeCounted } from '../../command.ts';
import { deadlineOf, timeoutOption } from '../../deadline.ts';
import { failureOf, usageError } from '../../errors.ts';
import { count, pastTime } from '../../options.ts';
import type { RunsFilter } from '../../watch/all-runs.ts';
import type { Fields } from '../../output/print.ts';
import { formatCost, formatTime } from '../../output/table.ts';
import { escapeLine } from '../../output/escape.ts';
import { inputText } from '../../output/run-events.ts';

const statuses = ['queued', 'running', 'waiting', 'completed', 'failed', 'canceled'] as const;

interface ListOptions extends Omit<RunsQuery, 'conversationId' | 'workflowId' | 'cursor'> {
  readonly conversation?: string;
  readonly workflow?: string;
  readonly limit: number;
}

export function registerRuns(program: CliCommand): void {
  const runs = program
    .command('runs')
    .description('list, show, follow and control runs')
    .examples(['relay runs list --status waiting', 'relay runs show latest', 'relay runs tail']);
  runs
    .command('list')
    .description('list runs, newest first')
    .addOption(new Option('--status <status>', 'only runs with this status').choices(statuses))
    .option('--agent <agent>', 'only runs of this agent')
    .option('--conversation <conversation>', 'only runs of this conversation')
    .option('--workflow <id>', 'only runs of this workflow')
    .option('--label <name:value>', 'only runs with this label')
    .option('--since <time>', 'started after: a date, or 12h, 7d ago', pastTime)
    .option('--until <time>', 'started before: a date, or 12h, 7d ago', pastTime)
    .option('--limit <n>', 'maximum number of results', count, 20)
    .examples(['relay runs list --status failed --since 24h', 'relay runs list --json | jq .id'])
    .handle(listRuns);
  runs
    .command('show [run]')
    .description('show one run with its turns, calls and approvals')
    .option('--events', 'print its events as they are stored, oldest first')
    .examples(['relay runs show latest', 'relay runs show RUN_ID --events --json'])
    .handle(showRun);
  runs
    .command('tail [run]')
    .description('follow a run until it ends, or without a run all of them')
    .option('--after <seq>', 'with a run: only events after this sequence number', count)
    .option('--agent <agent>', 'without a run: only runs of this agent')
    .option('--label <name:value>', 'without a run: only runs with this label')
    .addOption(
      new Option(
        '--status <status>',
        'without a run: only the ends of runs with this status',
      ).choices(['completed', 'failed', 'canceled']),
    )
    .addOption(timeoutOption())
    .examples(
      [
        'relay runs tail',
        'relay runs tail --agent support --status failed',
        'relay runs tail latest',
        'relay runs tail RUN_ID --timeout 5m --json',
      ],
      'Exits with 7 if the run fails or is canceled, and with 124 after the time of --timeout. ' +
        'Interrupting it does not cancel the run. ' +
        'Without a run it goes on until Ctrl-C, also when the server restarts.',
    )
    .handle(tailRun);
  runs
    .command('cancel [runs...]')
    .description('cancel runs, with their model calls and tools')
    .examples(['relay runs cancel RUN_ID'])
    .handle(cancelRuns);
  runs
    .command('resume [run]')
    .description('let a run go on that no server works on')
    .examples(
      ['relay runs resume RUN_ID'],
      'Servers do this by themselves, soon after another one has died; it is rarely needed.',
    )
    .handle(resumeRun);
  runs
    .command('fork [run]')
    .description('start a new run from the history of another')
    .option('--seq <seq>', 'sequence number to fork at (default: the last turn)', count)
    .option('--input <text>', 'message for the new run')
    .option('--follow', 'follow the new run')
    .addOption(timeoutOption())
    .examples(['relay runs fork RUN_ID --input "And in French?" --follow'])
    .handle(forkRun);
}

async function listRuns(context: Context<ListOptions>): Promise<void> {
  const { status, agent, conversation, workflow, label, since, until, limit } = context.options;
  const { runs } = await context.client();
  const query = {
    status,
    agent,
    conversationId: await context.optionalId('conversation', conversation),
    workflowId: workflow,
    label,
    since,
    until,
    ...context.page(limit),
  };
  context.print.list(
    await takeCounted(runs.list(query), limit),
    [
      { title: 'run', value: ({ id }) => id, id: true },
      { title: 'status', value: ({ status }) => status, status: true },
      { title: 'agent', value: ({ agent }) => agent, minor: true },
      { title: 'model', value: ({ model }) => model, minor: true },
      { title: 'created', value: ({ createdAt }) => createdAt, time: true },
      { title: 'input', value: inputText },
    ],
    'No matching runs.',
  );
}

async function showRun(context: Context<{ events?: boolean }>, [given]: readonly string[]) {
  const id = await context.id('run', given);
  const { runs } = await context.client();
  const run = await runs.get(id);
  printRun(context, run);
  if (context.options.events !== true) {
    if (!context.print.json) await printTimeline(context, runs.events(id));
    return;
  }
  for await (const event of runs.events(id)) {
    if (context.print.json) context.print.value(event);
    else {
      const { seq, type, at, ...rest } = event;
      const more = escapeLine(JSON.stringify(rest));
      context.print.raw(
        `${String(seq).padStart(6)}  ${formatTime(at)}  ${type.padEnd(20)}  ${more}\n`,
      );
    }
  }
}

/** A run whose journal was deleted has none. */
async function printTimeline({ print }: Context, events: AsyncIterable<StoredEvent>) {
  const { Timeline } = await import('../../output/timeline.ts');
  const timeline = new Timeline(print.paint, print.terminalColumns);
  print.raw('\n');
  try {
    for await (const event of events) {
      for (const line of timeline.add(event)) print.raw(`${line}\n`);
    }
  } catch (error) {
    const { code, error: text } = failureOf(error);
    if (code !== 'journal_pruned') throw error;
    print.note(text);
  }
}

interface TailOptions extends RunsFilter {
  readonly after?: number;
  readonly timeout?: number;
}

async function tailAll(context: Context<TailOptions>): Promise<void> {
  if (context.options.after !== undefined) throw usageError('--after requires a run');
  if (context.options.timeout !== undefined) throw usageError('--timeout requires a run');
  const { AllRuns } = await import('../../watch/all-runs.ts');
  const stop = new AbortController();
  const interrupt = () => stop.abort();
  process.once('SIGINT', interrupt);
  try {
    // From then on, it waits for one that restarts.
    const client = await context.respondingClient();
    await new AllRuns(context, client, context.options).run(stop.signal);
  } catch (error) {
    if (!stop.signal.aborted) throw error;
    // The shell continues after `^C`.
    if (context.environment.stderr.isTTY === true) context.print.note('');
  } finally {
    process.off('SIGINT', interrupt);
  }
}

async function tailRun(context: Context<TailOptions>, [given]: readonly string[]) {
  if (given === undefined) return tailAll(context);
  const { agent, label, status } = context.options;
  if ((agent ?? label ?? status) !== undefined) {
    throw usageError('--agent, --label and --status are for all runs: not together with a run');
  }
  const id = await context.id('run', given);
  const { runs } = await context.client();
  const { followRun } = await import('../../output/transcript.ts');
  const { after, timeout } = context.options;
  await followRun(context.print, runs.stream(id, { after, signal: deadlineOf(timeout, id) }));
}

async function cancelRuns(context: Context, given: readonly string[]): Promise<void> {
  const ids = await context.ids('run', given);
  const { runs } = await context.client();
  for (const id of ids) {
    const run = await runs.cancel(id);
    const { status } = run;
    const hasEnded = status === 'completed' || status === 'failed';
    const text = hasEnded ? `${run.id} has already ended: ${status}.` : `Canceling ${run.id}.`;
    context.print.result(run, text);
  }
}

async function resumeRun(context: Context, [given]: readonly string[]): Promise<void> {
  const id = await context.id('run', given);
  const { runs } = await context.client();
  const run = await runs.resume(id);
  context.print.result(run, `${run.id} is ${run.status}.`);
}

interface ForkOptions {
  readonly seq?: number;
  readonly input?: string;
  readonly follow?: boolean;
  readonly timeout?: number;
}

async function forkRun(context: Context<ForkOptions>, [given]: readonly string[]): Promise<void> {
  const { seq, input, follow, timeout } = context.options;
  const id = await context.id('run', given);
  const { runs } = await context.client();
  const run = await runs.fork(id, { seq, input });
  context.print.result(run, `Started ${run.id} from ${id}.`);
  if (follow !== true) return;
  const { followRun } = await import('../../output/transcript.ts');
  const signal = deadlineOf(timeout, run.id);
  await followRun(context.print, runs.stream(run.id, { signal }));
}

function printRun({ print }: Context, run: Run): void {
  const { usage, error } = run;
  const fields: Fields = {
    run: run.id,
    status: run.status,
    finish: run.finishReason,
    agent: run.agent,
    model: run.model,
    conversation: run.conversationId,
    parent: run.parentRunId,
    workflow: run.workflowId,
    labels: Object.entries(run.labels)
      .map(([name, value]) => `${name}:${value}`)
      .join(' '),
    created: formatTime(run.createdAt),
    ended: formatTime(run.endedAt),
    tokens: `${usage.input_tokens} in, ${usage.output_tokens} out`,
    cost: formatCost(run.costUsd),
    events: run.lastSeq,
    error: error === undefined ? undefined : `${error.message} [${error.code}]`,
    input: inputText(run),
    output: run.output,
  };
  print.record(run, fields);
}
