import type { Approval, DecisionBody } from '@relay/sdk';
import { Option } from 'commander';
import { type CliCommand, type Context, pageSize, take } from '../command.ts';
import { usageError } from '../errors.ts';
import { count, futureTime, json } from '../options.ts';
import { formatTime } from '../output/table.ts';

const statuses = ['pending', 'approved', 'denied', 'expired', 'closed'] as const;

interface ListOptions {
  readonly status?: Approval['status'];
  readonly all?: boolean;
  readonly run?: string;
  readonly limit: number;
}

export function registerApprovals(program: CliCommand): void {
  const approvals = program
    .command('approvals')
    .description('list, show and decide approval requests')
    .examples(['relay approvals list', 'relay approvals approve APPROVAL_ID']);
  approvals
    .command('list')
    .description('list pending approvals, newest first')
    .addOption(new Option('--status <status>', 'only approvals with this status').choices(statuses))
    .option('--all', 'include decided approvals')
    .option('--run <id>', 'only approvals of this run')
    .option('--limit <n>', 'maximum number of results', count, 20)
    .examples(['relay approvals list', 'relay approvals list --status denied --json'])
    .handle(listApprovals);
  approvals
    .command('show <approval>')
    .description('show one approval with the exact call')
    .examples(['relay approvals show APPROVAL_ID'])
    .handle(showApproval);
  approvals
    .command('approve <approval>')
    .description('allow the call, once or always')
    .option('--always', 'also allow the same call in future')
    .addOption(
      new Option('--scope <scope>', 'scope of --always (default: conversation)').choices([
        'run',
        'conversation',
        'tenant',
      ]),
    )
    .addOption(
      new Option('--rule <rule>', 'which calls --always covers').choices(['exact', 'suggested']),
    )
    .option('--uses <n>', 'maximum number of calls for --always', count)
    .option('--expires <time>', 'expiry of --always: a date, or 12h, 30d', futureTime)
    .option('--input <json>', 'replace the arguments, or answer a question', json)
    .option('--output <json>', 'do not run the call; use this as its result', json)
    .option('--reason <text>', 'reason for the decision')
    .examples([
      'relay approvals approve APPROVAL_ID',
      'relay approvals approve APPROVAL_ID --always --scope tenant --expires 30d',
      `relay approvals approve APPROVAL_ID --input '{"to": "ada", "text": "Better words"}'`,
    ])
    .handle(approveApproval);
  approvals
    .command('deny <approval>')
    .description('deny the call; the agent receives the reason')
    .option('--reason <text>', 'reason for the agent')
    .examples(['relay approvals deny APPROVAL_ID --reason "Not on a Friday"'])
    .handle(denyApproval);
}

async function listApprovals(context: Context<ListOptions>): Promise<void> {
  const { status, all, run, limit } = context.options;
  const wanted = status ?? (all === true ? undefined : 'pending');
  const { approvals } = await context.client();
  const query = { status: wanted, runId: run, limit: pageSize(limit) };
  context.print.list(
    await take(approvals.list(query), limit),
    [
      { title: 'approval', value: ({ id }) => id },
      { title: 'status', value: ({ status }) => status, status: true },
      { title: 'kind', value: ({ kind }) => kind, minor: true },
      { title: 'requested', value: ({ requestedAt }) => requestedAt, time: true },
      { title: 'request', value: ({ prompt, display }) => prompt ?? display.text },
    ],
    wanted === 'pending' ? 'No pending approvals.' : 'No matching approvals.',
  );
}

async function showApproval(context: Context, [id = '']: readonly string[]): Promise<void> {
  const { approvals } = await context.client();
  printApproval(context, await approvals.get(id));
}

type ApproveOptions = Omit<DecisionBody, 'approved' | 'expiresAt'> & { readonly expires?: string };

async function approveApproval(
  context: Context<ApproveOptions>,
  [id = '']: readonly string[],
): Promise<void> {
  const { always, scope, rule, uses, expires, input, output, reason } = context.options;
  const alwaysOptions = [scope, rule, uses, expires];
  if (always !== true && alwaysOptions.some((option) => option !== undefined)) {
    throw usageError('--scope, --rule, --uses and --expires require --always');
  }
  const { approvals } = await context.client();
  const decided = await approvals.approve(id, {
    always,
    scope,
    rule,
    uses,
    expiresAt: expires,
    input,
    output,
    reason,
  });
  printDecision(context, decided);
}

async function denyApproval(context: Context<{ reason?: string }>, [id = '']: readonly string[]) {
  const { approvals } = await context.client();
  printDecision(context, await approvals.deny(id, context.options.reason));
}

function printDecision({ print }: Context, approval: Approval): void {
  print.result(approval, `${approval.tool} is ${approval.status}.`);
}

function printApproval({ print }: Context, approval: Approval): void {
  const { decidedBy, display } = approval;
  print.record(approval, {
    approval: approval.id,
    status: approval.status,
    kind: approval.kind,
    run: approval.runId,
    agent: approval.agentPath.join(' › '),
    requested: formatTime(approval.requestedAt),
    expires: formatTime(approval.expiresAt),
    question: approval.prompt,
    request: display.text,
    warnings: display.flags.join(', '),
    executed:
      approval.executedParams === undefined
        ? undefined
        : JSON.stringify(approval.executedParams, null, 2),
    suggested:
      approval.suggestedRule === undefined ? undefined : JSON.stringify(approval.suggestedRule),
    decided: formatTime(approval.decidedAt),
    by: decidedBy === undefined ? undefined : `${decidedBy.name} (${decidedBy.type})`,
    reason: approval.reason,
  });
}
