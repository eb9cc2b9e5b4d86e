/** The presets, with the programs of `.cache/agents` and with what an agent needs to use other models. */
import { join } from 'node:path';
import { acp, defineConfig } from '@relay/server';
import { agents } from './agents.ts';
import { programs } from './install.ts';

const models = process.env['AGENT_MODELS_URL'] ?? '';

export default defineConfig({
  harnesses: agents.map(({ name, command: [program, ...args], env }) =>
    acp({ name, command: [join(programs, program), ...args], env: env(models) }),
  ),
});
