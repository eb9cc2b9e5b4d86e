/**
 * Several agents, and a person whose answers may hold for ever:
 * node examples/permissions/always-once-no.ts
 */
import { AgentOrchestrator } from '@relay/agents';
import { askUser, hangUp } from './ask-user.ts';
import { bashTool } from './shell.ts';

const orchestrator = new AgentOrchestrator();

for (const command of ['git status', 'git push']) {
  const use = `use bash ${JSON.stringify({ command })}`;
  const messages = [{ role: 'user', content: `${use}\n${use}` }];
  orchestrator.spawn({ model: 'demo', messages, tools: [bashTool] });
}

for await (const { agentId, event } of orchestrator.events()) {
  if (event.type === 'relay' && event.kind === 'permission') {
    const command = String(event.params['command']);
    const approved = await askUser(`Allow ${command}? (always/once/no)`);

    if (approved === 'always') {
      // Add to allowlist
      orchestrator.updatePermissions(agentId, {
        allowlist: [
          ...orchestrator.getPermissions(agentId).allowlist,
          { tool: event.tool, params: event.params },
        ],
      });
    }

    orchestrator.resolveRelay(event.id, { approved: approved !== 'no' });
  }
}
hangUp();
