/** The real agents, as sessions of a real server. */
import { afterAll, beforeAll, describe, test } from 'vitest';
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
});
