import { spawn } from 'node:child_process';
import { randomUUID } from 'node:crypto';
import { once } from 'node:events';
import { fileURLToPath } from 'node:url';
import { killOrphanProcesses } from '@relay/processes';
import { expect, it } from 'vitest';
import { processesWith } from './agent-fixture.ts';

const program = fileURLToPath(new URL('supervised-agent.ts', import.meta.url));

async function killed(mode: string) {
  const variable = `HOSTILE_AGENT=${randomUUID()}`;
  const server = spawn(process.execPath, [program, mode, variable], {
    stdio: ['ignore', 'pipe', 'inherit'],
  });
  await once(server.stdout, 'data');
  const before = processesWith(variable);
  server.kill('SIGKILL');
  await once(server, 'exit');
  return { variable, before };
}

it('an agent whose server was killed ends with its input', async () => {
  const { variable, before } = await killed('after-the-end');
  expect(before).toHaveLength(1);
  await expect.poll(() => processesWith(variable), { timeout: 10_000 }).toEqual([]);
});

it.each(['children', 'ignores-the-end'])(
  'what an agent leaves of a killed server ends at the next start: %s',
  async (mode) => {
    const { variable, before } = await killed(mode);
    expect(before.length).toBeGreaterThanOrEqual(mode === 'children' ? 3 : 1);
    expect(processesWith(variable).length).toBeGreaterThan(0);
    expect(await killOrphanProcesses()).toBeGreaterThan(0);
    await expect.poll(() => processesWith(variable), { timeout: 10_000 }).toEqual([]);
  },
);
