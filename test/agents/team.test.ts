/** Three different agents and a person work in one channel. */
import { afterAll, beforeAll, expect, test } from 'vitest';
import { agents, type TestedAgent } from './agents.ts';
import { Stage } from './stage.ts';

let stage: Stage;
beforeAll(async () => {
  stage = await Stage.start();
});
afterAll(() => stage.dispose());

test('opencode, Claude Code, Codex and a person complete a task by messages of /mcp', async () => {
  const { client, models } = stage;
  const [first, second, third] = agents as [TestedAgent, TestedAgent, TestedAgent];
  const read: string[] = [];
  const ada = await client.sessions.serve({
    handle: 'ada',
    identity: { name: 'Ada', kind: 'human' },
    onMessage: ({ from, text }) => void read.push(`${from.name}: ${text}`),
  });
  const sessions = [];
  await client.channels.put('release', { topic: 'The next release' });
  await client.channels.addMember('release', 'ada');
  for (const agent of agents) {
    sessions.push(await stage.session(agent, { handle: agent.name }));
    await client.channels.addMember('release', agent.name);
  }

  // Each does its part, which needs a permission, and tells the channel; the next one reads that.
  const part = (agent: TestedAgent, command: string, text: string) => ({
    [agent.name]: [
      { call: agent.shell(command) },
      { call: agent.relay('send_message', { to: '#release', text }) },
      { say: 'That was my part' },
    ],
  });
  const tested = models.scripts(part(third, 'echo tested >> log', 'It is tested'));
  const built = models.scripts(part(second, 'echo built >> log', `It is built. ${tested}`));
  const noted = models.scripts(part(first, 'echo noted >> log', `Notes are written. ${built}`));
  await ada.send({ to: '#release', text: noted });

  // Ada approves what she is asked.
  const asked = new Set<string>();
  await stage.until(async () => {
    for (const { id, tool } of (await client.approvals.list({ status: 'pending' }).page()).items) {
      asked.add(tool);
      await client.approvals.approve(id);
    }
    return read.some((line) => line.includes('It is tested'));
  });
  expect(read.map((line) => line.split('.')[0])).toEqual([
    expect.stringMatching(/: Notes are written$/),
    expect.stringMatching(/: It is built$/),
    expect.stringMatching(/: It is tested$/),
  ]);
  expect(asked).toContain('bash');
  await Promise.all(sessions.map((session) => stage.idle(session)));
  expect(sessions.map((session) => stage.file(session, 'log'))).toEqual([
    'noted\n',
    'built\n',
    'tested\n',
  ]);
  for (const session of sessions) await stage.release(session);
  await client.sessions.drop(ada.id);
  await ada.closed;
});
