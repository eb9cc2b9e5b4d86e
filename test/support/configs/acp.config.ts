/** The scripted agent of the tests, as a harness. */
import { fileURLToPath } from 'node:url';
import { acp, defineConfig } from '@relay/server';

const program = fileURLToPath(
  new URL('../../../packages/harnesses/test/acp/scripted-agent.ts', import.meta.url),
);
const options = JSON.stringify({ steering: true, log: 'agent.log' });

export default defineConfig({
  harnesses: [acp({ name: 'scripted', command: [process.execPath, program, options] })],
});
