import type { ExplainBody, Permissions } from '@relay/sdk';
import type { Command } from 'commander';
import { acting, type Call } from '../call.ts';
import { examples, jsonObject } from '../help.ts';
import { paintStatus } from '../paint.ts';
import { visible } from '../visible.ts';
import type { World } from '../world.ts';

interface Options {
  readonly params: ExplainBody['params'];
  readonly permissions?: Permissions;
  readonly run?: string;
  readonly conversation?: string;
  readonly agent?: string;
}

export function registerExplain(program: Command, world: World): void {
  const explain = program
    .command('explain <tool>')
    .description('what the rules make of a call, and why')
    .option('--params <json>', 'the arguments of the call', jsonObject, {})
    .option('--permissions <json>', 'rules that a request would bring', jsonObject)
    .option('--run <id>', 'also with the grants of this run')
    .option('--conversation <id>', 'also with the grants of this conversation')
    .option('--agent <name>', 'with the policy of this agent (default: assistant)')
    .action(acting(world, explainCall));
  examples(explain, [
    `relay explain send_note --params '{"to": "operator", "text": "hi"}'`,
    `relay explain bash --params '{"command": "ls"}' --permissions '{"denylist": [{"tool": "bash"}]}'`,
  ]);
}

async function explainCall(call: Call<Options>, [tool = '']: readonly string[]): Promise<void> {
  const { params, permissions, run, conversation, agent } = call.options;
  const client = await call.client();
  const body: ExplainBody = {
    tool,
    params,
    ...(permissions === undefined ? {} : { permissions }),
    ...(run === undefined ? {} : { runId: run }),
    ...(conversation === undefined ? {} : { conversationId: conversation }),
    ...(agent === undefined ? {} : { agent }),
  };
  const explanation = await client.permissions.explain(body);
  const { print } = call;
  if (print.json) {
    print.value(explanation);
    return;
  }
  const { decision, reason, rule } = explanation;
  print.raw(`${paintStatus(print.paint, decision)}  ${visible(reason)}\n`);
  if (rule !== undefined) print.say(`rule: ${JSON.stringify(rule)}`);
}
