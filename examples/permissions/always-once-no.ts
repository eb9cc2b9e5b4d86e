/**
 * Approve the calls of several agents: always, once or not at all.
 * npx node examples/permissions/always-once-no.ts
 */
import { AgentOrchestrator } from 'relay-kit/library';
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
    // Any other answer denies. `always` allows exactly this call.
    const approved = answer === 'always' || answer === 'once';
    orchestrator.resolveRelay(event.id, { approved, always: answer === 'always' });
  }
}
hangUp();
