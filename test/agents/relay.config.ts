/** The real agents of `.cache/agents`, with models of the test. */
import { join } from 'node:path';
import { defineConfig } from '@relay/server';
import { acp } from './acp-try.ts';
import { agents } from './agents.ts';
import { programs } from './install.ts';

const models = process.env['AGENT_MODELS_URL'] ?? '';

export default defineConfig({
  harnesses: agents.map(({ name, program, env }) =>
    acp({ name, command: [join(programs, program), ...(name === 'opencode' ? ['acp'] : [])], env: env(models) }),
  ),
});
