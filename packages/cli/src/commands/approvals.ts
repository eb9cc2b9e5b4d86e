import type { Approval, DecisionBody } from '@relay/sdk';
import type { Command } from 'commander';
import { Option } from 'commander';
import { acting, type Call } from '../call.ts';
import { usageError } from '../failures.ts';
import { count, examples, json, moment } from '../help.ts';
import { pageSize, take } from '../lists.ts';
import { when } from '../table.ts';
import type { World } from '../world.ts';

const statuses = ['pending', 'approved', 'denied', 'expired', 'closed'] as const;

interface ListOptions {
  readonly status?: (typeof statuses)[number];
  readonly all?: boolean;
  readonly run?: string;
  readonly limit: number;
}

export function registerApprovals(program: Command, world: World): void {
  const approvals = program
    .command('approvals')
    .description('what agents ask people, and the answers');
  examples(approvals, ['relay approvals list', 'relay approvals approve APPROVAL_ID']);
  const list = approvals
    .command('list')
    .description('open requests, newest first')
    .addOption(new Option('--status <status>', 'those in this state').choices(statuses))
    .option('--all', 'also what was decided')
    .option('--run <id>', 'only of this run')
    .option('--limit <n>', 'how many at most', count, 20)
    .action(acting(world, listApprovals));
  examples(list, ['relay approvals list', 'relay approvals list --status denied --json']);
  const show = approvals
    .command('show <approval>')
    .description('one request, as exactly as it was asked')
    .action(acting(world, showApproval));
  examples(show, ['relay approvals show APPROVAL_ID']);
  const approve = approvals
    .command('approve <approval>')
    .description('let it run, once or always')
    .option('--always', 'and do not ask about this very call again')
    .addOption(
      new Option('--scope <scope>', 'where always holds (default: its conversation)').choices([
        'run',
        'conversation',
        'tenant',
      ]),
    )
    .addOption(new Option('--rule <rule>', 'what always covers').choices(['exact', 'suggested']))
    .option('--uses <n>', 'for how many calls always holds', count)
    .option('--expires <time>', 'until when always holds: a date, or 12h, 30d', moment)
    .option('--input <json>', 'run it with these arguments instead, or answer a question', json)
    .option('--output <json>', 'it has happened already, and this is its result', json)
    .option('--reason <text>', 'why')
    .action(acting(world, approveOne));
  examples(approve, [
    'relay approvals approve APPROVAL_ID',
    'relay approvals approve APPROVAL_ID --always --scope tenant --expires 30d',
    `relay approvals approve APPROVAL_ID --input '{"to": "ada", "text": "Better words"}'`,
  ]);
  const deny = approvals
    .command('deny <approval>')
    .description('do not let it run; the agent is told why')
    .option('--reason <text>', 'what the agent is told')
    .action(acting(world, denyApproval));
  examples(deny, ['relay approvals deny APPROVAL_ID --reason "Not on a Friday"']);
}

async function listApprovals(call: Call<ListOptions>): Promise<void> {
  const { status, all, run, limit } = call.options;
  const wanted = status ?? (all === true ? undefined : 'pending');
  const { approvals } = await call.client();
  const query = {
    ...(wanted === undefined ? {} : { status: wanted }),
    ...(run === undefined ? {} : { runId: run }),
    limit: pageSize(limit),
  };
  call.print.list(
    await take(approvals.list(query), limit),
    [
      { title: 'approval', of: ({ id }) => id },
      { title: 'status', of: ({ status }) => status, status: true },
      { title: 'kind', of: ({ kind }) => kind, minor: true },
      { title: 'raised', of: ({ requestedAt }) => requestedAt, time: true },
      { title: 'request', of: ({ prompt, display }) => prompt ?? display.text },
    ],
    wanted === 'pending' ? 'Nobody is asked for anything.' : 'There are no such requests.',
  );
}

async function showApproval(call: Call, [id = '']: readonly string[]): Promise<void> {
  const { approvals } = await call.client();
  showOne(call, await approvals.get(id));
}

interface ApproveOptions {
  readonly always?: boolean;
  readonly scope?: 'run' | 'conversation' | 'tenant';
  readonly rule?: 'exact' | 'suggested';
  readonly uses?: number;
  readonly expires?: string;
  readonly input?: DecisionBody['input'];
  readonly output?: DecisionBody['output'];
  readonly reason?: string;
}

async function approveOne(call: Call<ApproveOptions>, [id = '']: readonly string[]): Promise<void> {
  const { always, scope, rule, uses, expires, input, output, reason } = call.options;
  const terms = [scope, rule, uses, expires];
  if (always !== true && terms.some((term) => term !== undefined)) {
    throw usageError('--scope, --rule, --uses and --expires say something of --always alone');
  }
  const { approvals } = await call.client();
  const decided = await approvals.approve(id, {
    ...(always === undefined ? {} : { always }),
    ...(scope === undefined ? {} : { scope }),
    ...(rule === undefined ? {} : { rule }),
    ...(uses === undefined ? {} : { uses }),
    ...(expires === undefined ? {} : { expiresAt: expires }),
    ...(input === undefined ? {} : { input }),
    ...(output === undefined ? {} : { output }),
    ...(reason === undefined ? {} : { reason }),
  });
  report(call, decided);
}

async function denyApproval(call: Call<{ reason?: string }>, [id = '']: readonly string[]) {
  const { approvals } = await call.client();
  report(call, await approvals.deny(id, call.options.reason));
}

function report({ print }: Call, approval: Approval): void {
  if (print.json) print.value(approval);
  else print.say(`${approval.tool} is ${approval.status}.`);
}

function showOne({ print }: Call, approval: Approval): void {
  const { decidedBy, display } = approval;
  print.one(approval, {
    approval: approval.id,
    status: approval.status,
    kind: approval.kind,
    run: approval.runId,
    agent: approval.agentPath.join(' › '),
    raised: when(approval.requestedAt),
    expires: when(approval.expiresAt),
    question: approval.prompt,
    request: display.text,
    beware: display.flags.join(', '),
    executed:
      approval.executedParams === undefined
        ? undefined
        : JSON.stringify(approval.executedParams, null, 2),
    suggested:
      approval.suggestedRule === undefined ? undefined : JSON.stringify(approval.suggestedRule),
    decided: when(approval.decidedAt),
    by: decidedBy === undefined ? undefined : `${decidedBy.name} (${decidedBy.type})`,
    reason: approval.reason,
  });
}
