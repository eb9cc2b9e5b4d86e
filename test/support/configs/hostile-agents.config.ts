/** Agents that work, fail to start, or are not installed. */
import { fileURLToPath } from 'node:url';
import { acp, defineConfig, pty } from '@relay/server';

const program = fileURLToPath(
  new URL('../../../packages/harnesses/test/acp/hostile-agent.ts', import.meta.url),
);
const hostile = (mode: string) =>
  acp({ name: mode, command: [process.execPath, program, mode], env: { HOSTILE_KEY: 'hunter22' } });

export default defineConfig({
  harnesses: [
    hostile('well-behaved'),
    hostile('children'),
    hostile('refuses-sessions'),
    hostile('exits-in-initialize'),
    pty({ name: 'exits', command: ['sh', '-c', 'exit 3'] }),
    acp({ name: 'absent', preset: 'claude', command: ['claude-agent-acp-absent'] }),
  ],
});
