/**
 * Approve the calls of one agent: npx node examples/permissions/approve.ts
 */
import { createAgentHarness, createDefaultHarness, type Permissions } from 'relay-kit/library';
import { askUser, hangUp } from './ask-user.ts';
import { bashTool } from './shell.ts';

const agent = createAgentHarness({ harness: createDefaultHarness(), model: 'demo' });
const content = 'use bash {"command": "ls"}\nuse bash {"command": "rm -rf build"}';
const messages = [{ role: 'user', content }];
const permissions: Permissions = { allowlist: [{ tool: 'bash', params: { command: 'ls*' } }] };

for await (const event of agent.invoke({ messages, tools: [bashTool], permissions })) {
  if (event.type === 'relay' && event.kind === 'permission') {
    console.log(`Agent wants to call ${event.tool} with`, event.params);

    const approved = (await askUser(`Allow ${event.tool}? (yes/no)`)) === 'yes';

    event.respond({
      approved,
      reason: approved ? undefined : 'User denied',
    });
  }
  if (event.type === 'text') process.stdout.write(event.content);
}
console.log();
hangUp();
