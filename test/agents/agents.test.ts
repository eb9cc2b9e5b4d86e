/** The real agents, as sessions of a real server. */
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { agents } from './agents.ts';
import { scenarios } from './scenarios.ts';
import { Stage } from './stage.ts';

describe.each(agents)('$name', (agent) => {
  let stage: Stage;
  beforeAll(async () => {
    stage = await Stage.start();
  });
  afterAll(() => stage.dispose());

  test.each(scenarios)('$name', async ({ play }) => {
    const session = await stage.session(agent);
    await play({ stage, agent, session });
    await stage.release(session);
  });

  test('does not follow what a project says about permissions', async () => {
    const starting = stage.session(agent, { files: agent.projectFiles });
    if (agent.isRefusedWithProjectFiles) {
      await expect(starting).rejects.toThrow('.codex');
      return;
    }
    const session = await starting;
    const call = agent.shell('echo x >> log');
    await stage.send(session, stage.models.script({ call }, { say: 'Ran' }));
    await stage.client.approvals.deny((await stage.pending(session)).id);
    await stage.idle(session);
    expect(stage.file(session, 'log')).toBeUndefined();
    expect(stage.file(session, 'hooked')).toBeUndefined();
    await stage.release(session);
  });
});
