/** A program that supervises the hostile agent, to be killed. Prints a line when the agent has children. */
import { systemClock } from '@relay/core';
import { AgentProcess } from '../../src/acp/agent-process.ts';
import { connectAgent } from '../../src/acp/connection.ts';
import { AgentSupervisor } from '../../src/acp/supervisor.ts';
import { hostileAgent, prompt, RecordingClient } from './agent-fixture.ts';

const [mode = '', variable = ''] = process.argv.slice(2);
const [name = '', value = ''] = variable.split('=');

const supervisor = new AgentSupervisor({
  client: new RecordingClient(),
  connect: (client) => {
    const program = new AgentProcess({
      command: {
        file: process.execPath,
        args: [hostileAgent, mode],
        cwd: '/',
        env: { PATH: process.env['PATH'] ?? '', [name]: value },
      },
      secrets: [],
      memoryBytes: 2 ** 40,
    });
    return connectAgent(program, client, { clock: systemClock });
  },
  onConnected: async ({ agent }) => {
    await agent.request('session/new', { cwd: '/', mcpServers: [] });
  },
  onLost: () => undefined,
  onFailed: () => undefined,
  canResume: () => true,
  isIdle: () => false,
  clock: systemClock,
});

await prompt(await supervisor.connection());
console.log('ready');
