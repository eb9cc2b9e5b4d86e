/**
 * `npm run bench [-- NAME …] [--rounds N] [--only ROW] [--profile DIR] [--peer] [--runs N]`: everything, or
 * what is named.
 */
import { parseArgs } from 'node:util';
import { defined } from '@relay/protocol';
import { benchApproval } from './approval.ts';
import { benchConsole } from './console.ts';
import { benchConversation } from './conversation.ts';
import { benchJournal } from './journal.ts';
import { UnknownRow } from './measure.ts';
import { benchMemories } from './memories.ts';
import { benchPermissions } from './permissions.ts';
import { benchPostgresTenants } from './postgres-tenants.ts';
import { benchPostgres } from './postgres.ts';
import { benchScale } from './scale.ts';
import { benchSessions } from './sessions.ts';
import { benchSilent } from './silent.ts';
import { benchStart } from './start.ts';
import { benchStream } from './stream.ts';

const benches = {
  approval: benchApproval,
  console: benchConsole,
  conversation: benchConversation,
  journal: benchJournal,
  memories: benchMemories,
  permissions: benchPermissions,
  postgres: benchPostgres,
  'postgres-tenants': benchPostgresTenants,
  scale: benchScale,
  sessions: benchSessions,
  silent: benchSilent,
  start: benchStart,
  stream: benchStream,
} as const;

const { values, positionals } = parseArgs({
  allowPositionals: true,
  options: {
    rounds: { type: 'string', default: '5' },
    only: { type: 'string' },
    profile: { type: 'string' },
    runs: { type: 'string' },
    peer: { type: 'boolean', default: false },
  },
});
const names = positionals.length === 0 ? Object.keys(benches) : positionals;
for (const name of names) {
  const bench = Object.hasOwn(benches, name) ? benches[name as keyof typeof benches] : undefined;
  if (bench === undefined) {
    console.error(`There is no benchmark ${name}; there are ${Object.keys(benches).join(', ')}`);
    process.exitCode = 1;
    break;
  }
  const { only, profile, peer } = values;
  const runs = values.runs === undefined ? undefined : Number(values.runs);
  try {
    await bench(Number(values.rounds), defined({ only, profile, peer, runs }));
  } catch (error) {
    if (!(error instanceof UnknownRow)) throw error;
    console.error(error.message);
    process.exitCode = 1;
    break;
  }
}
