/**
 * Several agents, and a person whose answers may hold for ever:
 * npx node examples/permissions/always-once-no.ts
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

for await (const { event } of orchestrator.events()) {
  if (event.type === 'relay' && event.kind === 'permission') {
    const command = String(event.params['command']);
    const answer = await askUser(`Allow ${command}? (always/once/no)`);
    // Whatever is not a plain yes is a no. `always` holds for exactly this call.
    const approved = answer === 'always' || answer === 'once';
    orchestrator.resolveRelay(event.id, { approved, always: answer === 'always' });
  }
}
hangUp();
