import type { ExplainBody } from '@relay/sdk';
import type { CliCommand, Context } from '../../command.ts';
import { usageError } from '../../errors.ts';
import { jsonObject } from '../../options.ts';
import { paintStatus } from '../../output/paint.ts';
import { rulePlace } from '../../output/rule-text.ts';
import { escapeUnsafe } from '../../output/escape.ts';

interface Options extends Pick<ExplainBody, 'params' | 'permissions' | 'agent'> {
  readonly run?: string;
  readonly conversation?: string;
  readonly function?: true;
  readonly needsApproval?: true;
}

export function registerExplain(program: CliCommand): void {
  program
    .command('explain <tool>')
    .description('show whether a call is allowed, and by which rule')
    .option('--params <json>', 'arguments of the call', jsonObject, {})
    .option('--permissions <json>', 'permissions of the request', jsonObject)
    .option('--function', 'it is a function tool of the request, which the caller runs')
    .option('--needs-approval', 'with --function: it declares needsApproval')
    .option(
      '--run <id>',
      'a call of this run: with its permissions, function tools, agent and grants',
    )
    .option('--conversation <id>', 'include the grants of this conversation')
    .option(
      '--agent <agent>',
      'agent whose policy applies (default: that of the run, else assistant)',
    )
    .examples([
      `relay explain send_note --params '{"to": "operator", "text": "hi"}'`,
      `relay explain bash --params '{"command": "ls"}' --permissions '{"denylist": [{"tool": "bash"}]}'`,
      `relay explain delete_user --function --permissions '{"ask": [{"tool": "delete_user"}]}'`,
    ])
    .handle(explainCall);
}

async function explainCall(
  context: Context<Options>,
  [tool = '']: readonly string[],
): Promise<void> {
  const { params, permissions, run, conversation, agent } = context.options;
  const { function: isFunction, needsApproval } = context.options;
  if (needsApproval === true && isFunction !== true) {
    throw usageError('--needs-approval requires --function');
  }
  const declared = {
    name: tool,
    kind: 'function',
    inputSchema: { type: 'object' },
    needsApproval,
  } as const;
  const client = await context.client();
  const ids = { runId: run, conversationId: conversation };
  const explanation = await client.permissions.explain({
    tool,
    params,
    permissions,
    tools: isFunction === true ? [declared] : undefined,
    agent,
    ...ids,
  });
  const { print } = context;
  if (print.json) {
    print.value(explanation);
    return;
  }
  const { decision, reason, rule, nearMisses = [] } = explanation;
  print.raw(`${paintStatus(print.paint, decision)}  ${escapeUnsafe(reason)}\n`);
  if (rule !== undefined) print.line(`rule: ${JSON.stringify(rule)}`);
  for (const { reason: why, ...missed } of nearMisses) {
    print.line(`not matched: ${rulePlace(missed)}: ${escapeUnsafe(why)}`);
  }
}
