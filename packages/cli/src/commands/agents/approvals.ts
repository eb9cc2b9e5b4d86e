import { describeFlags } from '@relay/protocol/display';
import { approvalStatuses, grantScopes } from '@relay/protocol/wire';
import type { Approval, DecisionBody, RelayClient } from '@relay/sdk';
import { Option } from 'commander';
import { type CliCommand, type Context, takeCounted } from '../../command.ts';
import { CliError, exitCodes, isApiError, usageError } from '../../errors.ts';
import { count, futureTime, json } from '../../options.ts';
import { answerCommand, loadDecisionText, votesText } from '../../output/decision-text.ts';
import { rulePlace, whyEachTime } from '../../output/rule-text.ts';
import type { Fields } from '../../output/print.ts';
import { formatTime } from '../../output/table.ts';
import { approverNames } from '../server/policy.ts';
import { relay } from '../../environment.ts';

interface ListOptions {
  readonly status?: Approval['status'];
  readonly all?: boolean;
  readonly run?: string;
  readonly tool?: string;
  readonly mine?: boolean;
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
    .addOption(
      new Option('--status <status>', 'only approvals with this status').choices(approvalStatuses),
    )
    .option('--all', 'include decided approvals')
    .option('--run <run>', 'only approvals of this run')
    .option('--tool <name>', 'only calls of this tool')
    .option('--mine', 'only pending approvals that you may decide and have not voted on')
    .option('--limit <n>', 'maximum number of results', count, 20)
    .examples(['relay approvals list', 'relay approvals list --status denied --json'])
    .handle(listApprovals);
  approvals
    .command('show [approval]')
    .description('show one approval with the exact call')
    .examples(['relay approvals show APPROVAL_ID'])
    .handle(showApproval);
  approvals
    .command('watch')
    .description('decide approvals one after the other, as they come')
    .option('--tool <name>', 'only calls of this tool')
    .option('--agent <agent>', 'only calls of this agent')
    .option('--mine', 'only those that you may decide and have not voted on')
    .examples(
      ['relay approvals watch', 'relay approvals watch --tool send_note --mine'],
      'It needs a terminal. If another person decides first, the prompt closes. Ctrl-C and Ctrl-D ' +
        'leave; what is not decided stays pending.',
    )
    .handle(watchApprovals);
  approvals
    .command('approve [approval]')
    .description('allow the call, once or always')
    .option('--always', 'also allow the same call in future')
    .addOption(
      new Option('--scope <scope>', 'scope of --always (default: conversation)').choices(
        grantScopes,
      ),
    )
    .addOption(
      new Option('--rule <rule>', 'which calls --always covers').choices(['exact', 'suggested']),
    )
    .option('--uses <n>', 'maximum number of calls for --always', count)
    .option('--expires <time>', 'expiry of --always: a date, or 12h, 30d', futureTime)
    .option('--input <json>', 'replace the arguments, or answer a question', json)
    .option('--reason <text>', 'reason for the decision')
    .option('--digest <digest>', 'what you saw, as "show" prints it; required after an edit')
    .examples(
      [
        'relay approvals approve APPROVAL_ID',
        'relay approvals approve APPROVAL_ID --always --scope tenant --expires 30d',
        `relay approvals approve APPROVAL_ID --input '{"to": "ada", "text": "Better words"}'`,
      ],
      'Without an id, or with "latest", it shows the request on a terminal and asks you to confirm.',
    )
    .handle(approveApproval);
  approvals
    .command('answer [approval]')
    .description(
      'say what became of a call that was started before a crash or a stop of the server',
    )
    .option('--completed <json>', 'it took effect, with this result; it does not run again', json)
    .option('--failed [reason]', 'it did not take effect; it does not run again')
    .option('--rerun', 'run it again; if it did take effect, it takes effect twice')
    .examples(
      [
        `relay approvals answer APPROVAL_ID --completed '{"refunded": true}'`,
        'relay approvals answer APPROVAL_ID --failed "The payment provider has no such refund"',
        'relay approvals answer APPROVAL_ID --rerun',
      ],
      'For approvals of kind outcome. Check first whether the call took effect.',
    )
    .handle(answerOutcome);
  approvals
    .command('deny [approval]')
    .description('deny the call; the agent receives the reason')
    .option('--reason <text>', 'reason for the agent')
    .examples(['relay approvals deny APPROVAL_ID --reason "Not on a Friday"'])
    .handle(denyApproval);
}

async function listApprovals(context: Context<ListOptions>): Promise<void> {
  const { status, all, run, tool, limit, mine } = context.options;
  if (mine === true && (status !== undefined || all === true)) {
    throw usageError('--mine lists pending approvals: not together with --status or --all');
  }
  const wanted = status ?? (all === true ? undefined : 'pending');
  const { approvals, sessions } = await context.client();
  const decidable = mine === true ? 'true' : undefined;
  const runId = await context.optionalId('run', run);
  const query = { status: wanted, runId, tool, decidable, ...context.page(limit) } as const;
  const listed = await takeCounted(approvals.list(query), limit);
  const handles = await handlesOf(sessions, listed.items);
  context.print.list(
    listed,
    [
      { title: 'approval', value: ({ id }) => id, id: true },
      { title: 'status', value: ({ status }) => status, status: true },
      { title: 'session', value: ({ sessionId = '' }) => handles.get(sessionId) ?? '' },
      { title: 'votes', value: votesText },
      { title: 'kind', value: ({ kind }) => kind, minor: true },
      { title: 'requested', value: ({ requestedAt }) => requestedAt, time: true },
      { title: 'warnings', value: ({ display }) => display.flags.join(', ') },
      { title: 'request', value: requestText },
    ],
    wanted === 'pending' ? 'No pending approvals.' : 'No matching approvals.',
  );
}

function requestText({ prompt, display, tool, executedParams }: Approval): string {
  if (executedParams === undefined) return prompt ?? display.text;
  return `${tool} ${JSON.stringify(executedParams)} (changed by the approver)`;
}

async function showApproval(context: Context, [given]: readonly string[]): Promise<void> {
  const id = await context.id('approval', given);
  const { approvals, sessions } = await context.client();
  const approval = await approvals.get(id);
  const handles = await handlesOf(sessions, [approval]);
  printApproval(context, approval, handles.get(approval.sessionId ?? ''));
}

interface WatchOptions {
  readonly tool?: string;
  readonly agent?: string;
  readonly mine?: boolean;
}

async function watchApprovals(context: Context<WatchOptions>): Promise<void> {
  const { stdin, stdout } = context.environment;
  if (stdin.isTTY !== true || stdout.isTTY !== true || context.print.json) {
    throw usageError(
      `"${relay} approvals watch" needs a terminal`,
      `use "${relay} approvals list --json" and "${relay} approvals approve ID" in a script`,
    );
  }
  const { ApprovalInbox } = await import('../../watch/approval-inbox.ts');
  // From then on, it waits for one that restarts.
  const client = await context.respondingClient();
  await new ApprovalInbox(context, client, context.options).run();
}

/** The handles of the sessions that ask, by id. One that was deleted since has none. */
async function handlesOf(
  sessions: RelayClient['sessions'],
  approvals: readonly Approval[],
): Promise<ReadonlyMap<string, string>> {
  const ids = new Set(approvals.flatMap(({ sessionId }) => sessionId ?? []));
  const found = await Promise.all([...ids].map((id) => sessions.get(id).catch(() => undefined)));
  return new Map(
    found.flatMap((each) => (each === undefined ? [] : [[each.id, each.identity.handle] as const])),
  );
}

type ApproveOptions = Omit<
  DecisionBody,
  'approved' | 'outcome' | 'output' | 'input' | 'expiresAt'
> & {
  readonly expires?: string;
  readonly input?: { readonly value: DecisionBody['input'] };
};

async function approveApproval(
  context: Context<ApproveOptions>,
  [given]: readonly string[],
): Promise<void> {
  const { always, scope, rule, uses, expires, input, reason, digest } = context.options;
  const alwaysOptions = [scope, rule, uses, expires];
  if (always !== true && alwaysOptions.some((option) => option !== undefined)) {
    throw usageError('--scope, --rule, --uses and --expires require --always');
  }
  const { approvals } = await context.client();
  const seen = await approvalToDecide(context, given, 'Approve it?', input);
  const decision = approvals.approve(seen.id, {
    always,
    scope,
    rule,
    uses,
    expiresAt: expires,
    input: input?.value,
    reason,
    digest: digest ?? seen.digest,
  });
  const decided = await unlessDecided(context, seen.id, decision);
  await printDecision(context, decided);
  if (always === true && decided.rule !== undefined) {
    const effect = '--always stores a grant, but calls like this one still need an approval';
    context.print.note(`${whyEachTime(decided.rule)}. ${effect}.`);
  }
}

interface AnswerOptions {
  readonly completed?: { readonly value: DecisionBody['output'] };
  readonly failed?: string | true;
  readonly rerun?: true;
}

async function answerOutcome(
  context: Context<AnswerOptions>,
  [given]: readonly string[],
): Promise<void> {
  const answer = outcomeOf(context.options);
  const { approvals } = await context.client();
  const { id, digest } = await approvalToDecide(context, given, `Answer ${answer.outcome}?`);
  const decision = approvals.decide(id, { ...answer, digest });
  await printDecision(context, await unlessDecided(context, id, decision));
}

/** Says who decided first, what and when. */
async function unlessDecided(
  context: Context,
  id: string,
  decision: Promise<Approval>,
): Promise<Approval> {
  try {
    return await decision;
  } catch (error) {
    if (!isApiError(error)) throw error;
    if (error.code === 'approval_changed') {
      throw new CliError(error.code, 'The arguments of this call are not those that were shown', {
        exit: exitCodes.conflict,
        hint: `look at it with "${relay} approvals show ${id}", then approve it with --digest`,
      });
    }
    if (error.code !== 'approval_conflict') throw error;
    const text = await loadDecisionText(await context.client(), id);
    throw new CliError(error.code, `The approval was already ${text}`, {
      exit: exitCodes.conflict,
      hint: `"${relay} approvals show ${id}" shows it`,
    });
  }
}

interface SeenApproval {
  readonly id: string;
  /** Of the call that was shown. */
  readonly digest?: string | undefined;
}

/** One that the person did not name by its id is shown as a whole first, and must be confirmed. */
async function approvalToDecide(
  context: Context,
  given: string | undefined,
  question: string,
  input?: ApproveOptions['input'],
): Promise<SeenApproval> {
  const { environment, print } = context;
  if (given !== undefined && given !== 'latest') return { id: await context.id('approval', given) };
  if (environment.stdin.isTTY !== true || environment.stderr.isTTY !== true || print.json) {
    throw usageError(
      'Name the approval to decide by its id',
      `"${relay} approvals list" shows them; without an id, and with "latest", the request is shown ` +
        'on a terminal and must be confirmed',
    );
  }
  const [{ requestFromApproval }, { showInput, showRequest }, ids, { confirmed }, { paintFor }] =
    await Promise.all([
      import('../../chat/client.ts'),
      import('../../chat/approval-prompt.ts'),
      import('../../ids.ts'),
      import('../../input.ts'),
      import('../../output/paint.ts'),
    ]);
  const client = await context.client();
  const pending = (limit: number) => ids.pendingApprovals(client, limit);
  const id = await ids.resolveAmong(context, 'pending approval', given, pending);
  const request = requestFromApproval(await client.approvals.get(id));
  const { stderr } = environment;
  const writeLine = (line: string) => void stderr.write(`${line}\n`);
  showRequest(request, { paint: paintFor(environment, stderr), writeLine });
  if (input !== undefined) showInput(request, input.value, writeLine);
  if (await confirmed(environment, question)) return { id, digest: request.digest };
  throw new CliError('not_confirmed', 'Nothing was decided');
}

function outcomeOf({ completed, failed, rerun }: AnswerOptions): DecisionBody {
  const answers = [completed, failed, rerun].filter((option) => option !== undefined);
  if (answers.length !== 1) throw usageError('Use one of --completed JSON, --failed and --rerun');
  if (completed !== undefined) return { outcome: 'completed', output: completed.value };
  if (rerun === true) return { outcome: 'rerun' };
  return { outcome: 'failed', reason: failed === true ? undefined : failed };
}

async function denyApproval(context: Context<{ reason?: string }>, [given]: readonly string[]) {
  const { approvals } = await context.client();
  const { id } = await approvalToDecide(context, given, 'Deny it?');
  const decision = approvals.deny(id, context.options.reason);
  await printDecision(context, await unlessDecided(context, id, decision));
}

async function printDecision(context: Context, approval: Approval): Promise<void> {
  const { print } = context;
  print.result(approval, decisionText(approval));
  const { keys } = await context.client();
  // The decision is stored, whether or not this works.
  const key = await keys.current().catch(() => undefined);
  if (key?.tenant.paused !== true) return;
  const { name } = key.tenant;
  print.note(`The tenant ${name} is paused: the run goes on after "${relay} unpause".`);
}

function decisionText(approval: Approval): string {
  const { outcome, status, tool } = approval;
  if (status === 'pending') {
    return `Your approval counts. ${tool} still waits: ${votesText(approval)} approvals.`;
  }
  if (outcome !== undefined) return outcomeText[outcome](tool);
  const isAnswered = approval.kind === 'question' && status === 'approved';
  return isAnswered ? `The question of ${tool} is answered.` : `${tool} is ${status}.`;
}

function approversText({ approvers }: Approval): string | undefined {
  if (approvers === undefined) return undefined;
  const except = approvers.notRequester ? ', not the person who started the run' : '';
  return `${approverNames(approvers)}${except}`;
}

const outcomeText = {
  rerun: (tool: string) => `${tool} runs again.`,
  completed: (tool: string) => `${tool} is recorded as completed.`,
  failed: (tool: string) => `${tool} is recorded as failed.`,
} as const;

function printApproval({ print }: Context, approval: Approval, handle?: string): void {
  const { decidedBy, display } = approval;
  print.record(approval, {
    approval: approval.id,
    status: approval.status,
    kind: approval.kind,
    run: approval.runId,
    session: handle === undefined ? approval.sessionId : `@${handle} (${approval.sessionId})`,
    agent: approval.agentPath.join(' › '),
    requested: formatTime(approval.requestedAt),
    expires: formatTime(approval.expiresAt),
    question: approval.prompt,
    warnings: describeFlags(display.flags)
      .map((warning) => `The request ${warning}`)
      .join('\n'),
    request: display.text,
    ...changedArguments(approval),
    digest: approval.executedDigest ?? approval.digest,
    approvals: votesText(approval),
    'approved by': approval.votes?.map(({ by }) => by.owner ?? by.name).join(', '),
    'may approve': approversText(approval),
    'asked by': approval.rule === undefined ? undefined : demandText(approval.rule),
    suggested:
      approval.suggestedRule === undefined ? undefined : JSON.stringify(approval.suggestedRule),
    answer: approval.input === undefined ? undefined : JSON.stringify(approval.input),
    'idempotency key': approval.idempotencyKey,
    outcome: approval.outcome,
    output: approval.output === undefined ? undefined : JSON.stringify(approval.output),
    decided: formatTime(approval.decidedAt),
    by: decidedBy === undefined ? undefined : `${decidedBy.name} (${decidedBy.type})`,
    reason: approval.reason,
  });
  if (approval.status !== 'pending') return;
  // Without it, the server refuses to approve what another approver changed.
  const digest =
    approval.executedDigest === undefined ? '' : ` --digest ${approval.executedDigest}`;
  print.note(`Decide with: ${answerCommand(approval.kind, approval.id)}${digest}`);
}

/** The request shows a pending call as another approver changed it, and a decided one as it was made. */
function changedArguments({ status, params, executedParams }: Approval): Fields {
  if (executedParams === undefined) return {};
  return status === 'pending'
    ? { 'changed from': JSON.stringify(params, null, 2) }
    : { executed: JSON.stringify(executedParams, null, 2) };
}

function demandText(rule: NonNullable<Approval['rule']>): string {
  if (rule.list !== 'needsApproval') return rulePlace(rule);
  return `the tool, for ${rule.reason === undefined ? 'each call' : `this call: ${rule.reason}`}`;
}
