/** The real agents of `.cache/agents`, with models of the test. */
import { join } from 'node:path';
import { acp, defineConfig } from '@relay/server';
import { agents } from './agents.ts';
import { programs } from './install.ts';

const models = process.env['AGENT_MODELS_URL'] ?? '';

export default defineConfig({
  harnesses: agents.map(({ name, program, env }) =>
    acp({ name, command: [join(programs, program)], env: env(models) }),
  ),
});
