import type { Run } from '@relay/sdk';
import type { Command } from 'commander';
import { Option } from 'commander';
import { acting, type Call } from '../call.ts';
import { count, examples, past } from '../help.ts';
import { pageSize, take } from '../lists.ts';
import { type Fields } from '../print.ts';
import { when } from '../table.ts';
import { visibleLine } from '../visible.ts';
import type { World } from '../world.ts';

const statuses = ['queued', 'running', 'waiting', 'completed', 'failed', 'canceled'] as const;

interface ListOptions {
  readonly status?: (typeof statuses)[number];
  readonly agent?: string;
  readonly conversation?: string;
  readonly workflow?: string;
  readonly label?: string;
  readonly since?: string;
  readonly until?: string;
  readonly limit: number;
}

export function registerRuns(program: Command, world: World): void {
  const runs = program.command('runs').description('list, look at, follow and steer runs');
  examples(runs, ['relay runs list --status waiting', 'relay runs tail RUN_ID']);
  const list = runs
    .command('list')
    .description('the latest runs, newest first')
    .addOption(new Option('--status <status>', 'only these').choices(statuses))
    .option('--agent <name>', 'only runs of this agent')
    .option('--conversation <id>', 'only runs of this conversation')
    .option('--workflow <id>', 'only runs of this workflow')
    .option('--label <name:value>', 'only runs with this label')
    .option('--since <time>', 'started since: a date, or 12h, 7d ago', past)
    .option('--until <time>', 'started before: a date, or 12h, 7d ago', past)
    .option('--limit <n>', 'how many at most', count, 20)
    .action(acting(world, listRuns));
  examples(list, [
    'relay runs list --status failed --since 24h',
    'relay runs list --json | jq .id',
  ]);
  const show = runs
    .command('show <run>')
    .description('one run; with --events its whole journal')
    .option('--events', 'also every event, oldest first')
    .action(acting(world, showRun));
  examples(show, ['relay runs show RUN_ID', 'relay runs show RUN_ID --events --json']);
  const tail = runs
    .command('tail <run>')
    .description('follow a run until it is over')
    .option('--after <seq>', 'only what comes behind this place in the journal', count)
    .action(acting(world, tailRun));
  examples(tail, ['relay runs tail RUN_ID', 'relay runs tail RUN_ID --json'], {
    after: 'Exits with 7 if the run fails or is canceled. Leaving it cancels nothing.',
  });
  const cancel = runs
    .command('cancel <runs...>')
    .description('cancel runs, their model calls and their tools')
    .action(acting(world, cancelRuns));
  examples(cancel, ['relay runs cancel RUN_ID']);
  const resume = runs
    .command('resume <run>')
    .description('take up a run that was left behind')
    .action(acting(world, resumeRun));
  examples(resume, ['relay runs resume RUN_ID']);
  const fork = runs
    .command('fork <run>')
    .description('a new run with the same past')
    .option('--seq <seq>', 'from this place in the journal (default: its last turn)', count)
    .option('--input <text>', 'what to say to it')
    .option('--follow', 'follow the new run')
    .action(acting(world, forkRun));
  examples(fork, ['relay runs fork RUN_ID --input "And in French?" --follow']);
}

async function listRuns(call: Call<ListOptions>): Promise<void> {
  const { status, agent, conversation, workflow, label, since, until, limit } = call.options;
  const { runs } = await call.client();
  const query = {
    ...(status === undefined ? {} : { status }),
    ...(agent === undefined ? {} : { agent }),
    ...(conversation === undefined ? {} : { conversationId: conversation }),
    ...(workflow === undefined ? {} : { workflowId: workflow }),
    ...(label === undefined ? {} : { label }),
    ...(since === undefined ? {} : { since }),
    ...(until === undefined ? {} : { until }),
    limit: pageSize(limit),
  };
  call.print.list(
    await take(runs.list(query), limit),
    [
      { title: 'run', of: ({ id }) => id },
      { title: 'status', of: ({ status }) => status, status: true },
      { title: 'agent', of: ({ agent }) => agent, minor: true },
      { title: 'model', of: ({ model }) => model, minor: true },
      { title: 'created', of: ({ createdAt }) => createdAt, time: true },
      { title: 'input', of: inputOf },
    ],
    'There are no such runs.',
  );
}

async function showRun(call: Call<{ events?: boolean }>, [id = '']: readonly string[]) {
  const { runs } = await call.client();
  const run = await runs.get(id);
  showOne(call, run);
  if (call.options.events !== true) return;
  for await (const event of runs.events(id)) {
    if (call.print.json) call.print.value(event);
    else {
      const { seq, type, at, ...rest } = event;
      const more = visibleLine(JSON.stringify(rest));
      call.print.raw(`${String(seq).padStart(6)}  ${when(at)}  ${type.padEnd(20)}  ${more}\n`);
    }
  }
}

async function tailRun(call: Call<{ after?: number }>, [id = '']: readonly string[]) {
  const { runs } = await call.client();
  const { followRun } = await import('../follow.ts');
  const { after } = call.options;
  await followRun(call.print, runs.stream(id, after === undefined ? {} : { after }));
}

async function cancelRuns(call: Call, ids: readonly string[]): Promise<void> {
  const { runs } = await call.client();
  for (const id of ids) {
    const run = await runs.cancel(id);
    if (call.print.json) call.print.value(run);
    else
      call.print.say(
        `${run.id} is ${isOver(run) ? `over already: ${run.status}` : 'being canceled'}.`,
      );
  }
}

/** What ended before is not canceled; what the request itself has ended is. */
function isOver({ status }: Run): boolean {
  return status === 'completed' || status === 'failed';
}

async function resumeRun(call: Call, [id = '']: readonly string[]): Promise<void> {
  const { runs } = await call.client();
  const run = await runs.resume(id);
  if (call.print.json) call.print.value(run);
  else call.print.say(`${run.id} is ${run.status}.`);
}

interface ForkOptions {
  readonly seq?: number;
  readonly input?: string;
  readonly follow?: boolean;
}

async function forkRun(call: Call<ForkOptions>, [id = '']: readonly string[]): Promise<void> {
  const { seq, input, follow } = call.options;
  const { runs } = await call.client();
  const run = await runs.fork(id, {
    ...(seq === undefined ? {} : { seq }),
    ...(input === undefined ? {} : { input }),
  });
  if (call.print.json) call.print.value(run);
  else call.print.say(`${run.id} goes on from ${id}.`);
  if (follow !== true) return;
  const { followRun } = await import('../follow.ts');
  await followRun(call.print, runs.stream(run.id));
}

function showOne({ print }: Call, run: Run): void {
  const { usage, error } = run;
  const fields: Fields = {
    run: run.id,
    status: run.status,
    agent: run.agent,
    model: run.model,
    conversation: run.conversationId,
    parent: run.parentRunId,
    workflow: run.workflowId,
    labels: Object.entries(run.labels)
      .map(([name, value]) => `${name}:${value}`)
      .join(' '),
    created: when(run.createdAt),
    ended: when(run.endedAt),
    tokens: `${usage.input_tokens} in, ${usage.output_tokens} out`,
    cost: run.costUsd === undefined ? undefined : `$${run.costUsd}`,
    events: run.lastSeq,
    error: error === undefined ? undefined : `${error.message} [${error.code}]`,
    input: inputOf(run),
    output: run.output,
  };
  print.one(run, fields);
}

function inputOf({ input }: Run): string {
  if (typeof input === 'string') return input;
  const content = input?.findLast(({ role }) => role === 'user')?.content;
  return typeof content === 'string' ? content : JSON.stringify(content ?? '');
}
