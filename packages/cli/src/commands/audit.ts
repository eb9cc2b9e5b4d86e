import type { AuditEntry, AuditHead, AuditQuery } from '@relay/sdk';
import type { Command } from 'commander';
import { Option } from 'commander';
import { acting, type Call } from '../call.ts';
import { readDocument } from '../documents.ts';
import { CliError, usageError } from '../failures.ts';
import { count, examples, past } from '../help.ts';
import { pageSize, take } from '../lists.ts';
import { when } from '../table.ts';
import type { World } from '../world.ts';

type Action = NonNullable<AuditQuery['action']>;

/** The protocol's list again: help is shown without loading it, and a test compares the two. */
const auditActions = [
  'run.started',
  'run.canceled',
  'call.allowed',
  'call.denied',
  'approval.decided',
  'approval.expired',
  'approval.closed',
  'grant.created',
  'grant.revoked',
  'policy.changed',
  'key.created',
  'key.revoked',
  'credential.put',
  'credential.deleted',
  'tenant.paused',
  'tenant.resumed',
  'tenant.budgets-changed',
  'tenant.workspace-changed',
  'webhook.created',
  'webhook.deleted',
  'store.key-rotated',
  'store.restored',
] as const satisfies readonly Action[];

export function registerAudit(program: Command, world: World): void {
  const audit = program.command('audit').description('who did what, when and why');
  examples(audit, ['relay audit list --since 24h', 'relay audit verify']);
  const list = audit
    .command('list')
    .description('entries, newest first')
    .addOption(new Option('--action <action>', 'only of this kind').choices(auditActions))
    .option('--actor <id>', 'only of this key, grant or whoever else it was')
    .option('--run <id>', 'only of this run')
    .option('--since <time>', 'since: a date, or 12h, 7d', past)
    .option('--until <time>', 'until: a date, or 12h, 7d', past)
    .option('--limit <n>', 'how many at most', count, 20)
    .action(acting(world, listAudit));
  examples(list, [
    'relay audit list --action policy.changed',
    'relay audit list --run RUN_ID --json',
  ]);
  const head = audit
    .command('head')
    .description('where the trail ends now: put it aside, and verify against it later')
    .action(acting(world, showHead));
  examples(head, ['relay audit head --json > head.json']);
  const verify = audit
    .command('verify')
    .description('whether any entry was changed, removed, moved or added')
    .option('--against <file>', 'a head that was put aside: the trail must still hold it')
    .option('--backup <folder>', 'the trail in a backup, without any server')
    .option('--master-key-file <file>', 'with --backup: the master key, if it is not in it')
    .option('--tenant <name>', 'with --backup: whose trail (default: default)')
    .action(acting(world, verifyAudit));
  const shown = [
    'relay audit verify',
    'relay audit verify --against head.json',
    'relay audit verify --backup /backups/relay-monday --master-key-file ./master-key',
  ];
  examples(verify, shown, {
    after: 'Without a head from before, nobody can tell a trail that was cut off from a short one.',
  });
}

interface ListOptions {
  readonly action?: Action;
  readonly actor?: string;
  readonly run?: string;
  readonly since?: string;
  readonly until?: string;
  readonly limit: number;
}

async function listAudit(call: Call<ListOptions>): Promise<void> {
  const { action, actor, run, since, until, limit } = call.options;
  const { audit } = await call.client();
  const query = { action, actor, runId: run, since, until, limit: pageSize(limit) };
  call.print.list(
    await take(audit.list(query), limit),
    [
      { title: 'seq', of: ({ seq }) => seq },
      { title: 'at', of: ({ at }) => when(at) },
      { title: 'action', of: ({ action: done }) => done },
      { title: 'who', of: whoText },
      { title: 'what', of: whatText },
    ],
    'There are no such entries.',
  );
}

function whoText({ who }: AuditEntry): string {
  return who.name === who.type ? who.type : `${who.type} ${who.name}`;
}

/** What is empty says nothing here; `--json` has it all. */
function whatText({ what, why }: AuditEntry): string {
  const facts = Object.entries(what).flatMap(([name, value]) =>
    value === null || value === '' ? [] : [`${name}=${[value].flat().join(',')}`],
  );
  return [...facts, ...(why === undefined ? [] : [`(${why})`])].join(' ');
}

async function showHead(call: Call): Promise<void> {
  const { audit } = await call.client();
  const head = await audit.head();
  const { seq, hash, sealedAt } = head;
  call.print.one(head, { seq, hash, sealed: when(sealedAt) });
}

interface VerifyOptions {
  readonly against?: string;
  readonly backup?: string;
  readonly masterKeyFile?: string;
  readonly tenant?: string;
}

async function verifyAudit(call: Call<VerifyOptions>): Promise<void> {
  const { against } = call.options;
  const known = against === undefined ? undefined : headIn(await readDocument(call.world, against));
  const verdict = await verdictOn(call, known);
  const { ok, entries, head, firstBad } = verdict;
  if (call.print.json) call.print.value(verdict);
  if (!ok) {
    const where = firstBad === undefined ? '' : ` at ${firstBad.seq}: ${firstBad.problem}`;
    throw new CliError('audit_broken', `The trail is not what it was${where}`, {
      hint: `the ${entries} before are whole; compare with a backup`,
    });
  }
  const upTo = entries === 0 ? '' : `, up to ${head.hash}`;
  const also = known === undefined ? '' : `, and holds entry ${known.seq} as it was put aside`;
  call.print.say(`The trail is whole: ${entries} entries${upTo}${also}.`);
}

async function verdictOn(call: Call<VerifyOptions>, known: Head | undefined) {
  const { backup, masterKeyFile: keyFile, tenant } = call.options;
  if (backup === undefined) {
    if (keyFile !== undefined || tenant !== undefined) {
      throw usageError('--master-key-file and --tenant are about a --backup');
    }
    return (await call.client()).audit.verify(known);
  }
  const { verifyBackup } = await import('@relay/server/operator');
  const { env, cwd } = call.world;
  return verifyBackup({ env, cwd }, { backup, keyFile, tenant: tenant ?? 'default', known });
}

type Head = Pick<AuditHead, 'seq' | 'hash'>;

function headIn(given: Record<string, unknown>): Head {
  const { seq, hash } = given;
  if (typeof seq === 'number' && typeof hash === 'string') return { seq, hash };
  throw usageError('The file holds no head', '"relay audit head --json" writes one');
}
