import { resolve } from 'node:path';
import type { AuditEntry, AuditExportQuery, AuditHead, AuditQuery } from '@relay/sdk';
import { auditActions } from '@relay/protocol/wire';
import { Option } from 'commander';
import { type CliCommand, type Context, takeCounted } from '../../command.ts';
import { readDocument, readFile, readLines } from '../../input.ts';
import { CliError, usageError } from '../../errors.ts';
import { count, pastTime } from '../../options.ts';
import { shortId } from '../../output/short-id.ts';
import { formatTime } from '../../output/table.ts';
import { relay } from '../../environment.ts';

export function registerAudit(program: CliCommand): void {
  const audit = program
    .command('audit')
    .description('show and verify the audit trail')
    .examples([
      'relay audit list --since 24h',
      'relay audit verify',
      'relay audit export > audit.jsonl',
    ]);
  audit
    .command('list')
    .description('list audit entries, newest first')
    .addOption(
      new Option('--action <action>', 'only entries with this action').choices(auditActions),
    )
    .option('--actor <id>', 'only entries of this actor, such as a key or a grant')
    .option('--run <run>', 'only entries of this run')
    .option('--since <time>', 'start time: a date, or 12h, 7d ago', pastTime)
    .option('--until <time>', 'end time: a date, or 12h, 7d ago', pastTime)
    .option('--limit <n>', 'maximum number of results', count, 20)
    .examples(['relay audit list --action policy.changed', 'relay audit list --run RUN_ID --json'])
    .handle(listAudit);
  audit
    .command('head')
    .description('print the current head of the trail, to verify against later')
    .examples(['relay audit head --json > head.json'])
    .handle(showHead);
  audit
    .command('export')
    .description('print the trail as JSON lines, oldest first; the last line is a signed head')
    .option('--after <cursor>', 'continue after the cursor of an earlier head')
    .option('--limit <n>', 'maximum number of entries', count)
    .examples([
      'relay audit export > audit.jsonl',
      'relay audit export --after "$(tail -n 1 audit.jsonl | jq -r .cursor)" >> next.jsonl',
    ])
    .handle(exportAudit);
  audit
    .command('verify')
    .description('check that no entry was changed, removed, moved or added')
    .option('--against <file>', 'a head saved earlier, which the trail must still contain')
    .addOption(
      new Option('--file <file>', 'verify an exported file, without a server').conflicts([
        'against',
        'backup',
        'masterKeyFile',
        'tenant',
      ]),
    )
    .option('--public-key <file>', 'with --file: the public key in PEM, saved from an earlier head')
    .option('--after <cursor>', 'with --file: the cursor that the file must continue after')
    .option('--backup <folder>', 'verify the trail in a backup, without a server')
    .option('--master-key-file <file>', 'with --backup: the master key, if the backup lacks it')
    .option('--tenant <name>', 'with --backup: the tenant (default: default)')
    .examples(
      [
        'relay audit verify',
        'relay audit verify --against head.json',
        'relay audit verify --file audit.jsonl --public-key relay-audit.pem',
        'relay audit verify --backup /backups/relay-monday --master-key-file ./master-key',
      ],
      'Only --against detects entries that were removed from the end of the trail.',
    )
    .handle(verifyAudit);
}

interface ListOptions extends Pick<AuditQuery, 'action' | 'actor' | 'since' | 'until'> {
  readonly run?: string;
  readonly limit: number;
}

async function listAudit(context: Context<ListOptions>): Promise<void> {
  const { action, actor, run, since, until, limit } = context.options;
  const { audit } = await context.client();
  const isTerminal = context.environment.stdout.isTTY === true;
  const runId = await context.optionalId('run', run);
  const query = { action, actor, runId, since, until, ...context.page(limit) };
  context.print.list(
    await takeCounted(audit.list(query), limit),
    [
      { title: 'seq', value: ({ seq }) => seq },
      { title: 'at', value: ({ at }) => at, time: true },
      { title: 'action', value: ({ action }) => action },
      { title: 'who', value: whoText },
      { title: 'what', value: (entry) => whatText(entry, isTerminal) },
    ],
    'No matching entries.',
  );
}

function whoText({ who }: AuditEntry): string {
  return who.name === who.type ? who.type : `${who.type} ${who.name}`;
}

/** What a reader looks for first. */
const firstFacts = ['tool', 'approved', 'outcome', 'status', 'name', 'agent'];

/** Empty values are left out; `--json` has them all. A terminal shows the ends of ids. */
function whatText({ what, why }: AuditEntry, isTerminal: boolean): string {
  const rank = ([name]: readonly [string, unknown]) => {
    const at = firstFacts.indexOf(name);
    return at === -1 ? firstFacts.length : at;
  };
  const entries = Object.entries(what);
  const ordered = isTerminal ? entries.toSorted((a, b) => rank(a) - rank(b)) : entries;
  const facts = ordered.flatMap(([name, value]) => {
    const texts = [value ?? []].flat().map(String);
    const text = (isTerminal ? texts.map(shortId) : texts).join(',');
    return text === '' ? [] : [`${name}=${text}`];
  });
  return [...facts, ...(why === undefined ? [] : [`(${why})`])].join(' ');
}

async function showHead(context: Context): Promise<void> {
  const { audit } = await context.client();
  const head = await audit.head();
  const { seq, hash, sealedAt } = head;
  context.print.record(head, { seq, hash, sealed: formatTime(sealedAt) });
}

async function exportAudit(context: Context<AuditExportQuery>): Promise<void> {
  const { after, limit } = context.options;
  const { audit } = await context.client();
  for await (const line of audit.export({ after, limit })) context.print.value(line);
}

interface VerifyOptions {
  readonly file?: string;
  readonly publicKey?: string;
  readonly after?: string;
  readonly against?: string;
  readonly backup?: string;
  readonly masterKeyFile?: string;
  readonly tenant?: string;
}

async function verifyAudit(context: Context<VerifyOptions>): Promise<void> {
  const { against, file } = context.options;
  if (file !== undefined) return verifyFile(context, file);
  if (context.options.publicKey !== undefined || context.options.after !== undefined) {
    throw usageError('--public-key and --after require --file');
  }
  const known =
    against === undefined ? undefined : headIn(await readDocument(context.environment, against));
  const verdict = await verdictOn(context, known);
  const { ok, entries, head, firstBad } = verdict;
  if (context.print.json) context.print.value(verdict);
  if (!ok) {
    const where = firstBad === undefined ? '' : ` at entry ${firstBad.seq}: ${firstBad.problem}`;
    throw new CliError('audit_broken', `The audit trail was modified${where}`, {
      hint: `the ${entries} entries before are intact; compare with a backup`,
    });
  }
  const upTo = entries === 0 ? '' : `, up to ${head.hash}`;
  const also = known === undefined ? '' : `, and contains the saved head at entry ${known.seq}`;
  context.print.line(`The audit trail is intact: ${entries} entries${upTo}${also}.`);
}

async function verifyFile(context: Context<VerifyOptions>, file: string): Promise<void> {
  const { publicKey: keyFile, after } = context.options;
  const { verifyExport } = await import('@relay/server/operator');
  const { cwd } = context.environment;
  const publicKey = keyFile === undefined ? undefined : readFile(resolve(cwd, keyFile));
  const verdict = await verifyExport(await readLines(resolve(cwd, file)), { after, publicKey });
  if (context.print.json) context.print.value(verdict);
  if (!verdict.ok) {
    throw new CliError('audit_broken', `${file} is not an intact export: ${verdict.problem}`, {
      hint: 'export it again, and compare',
    });
  }
  const { seq, cursor } = verdict.head;
  context.print.line(
    `${file} is intact: ${verdict.entries} entries up to ${seq}, cursor ${cursor}.`,
  );
  if (publicKey === undefined && !context.print.json) {
    context.print.note('The file itself says whose signature it has; --public-key verifies that.');
  }
}

async function verdictOn(context: Context<VerifyOptions>, known: Head | undefined) {
  const { backup, masterKeyFile: keyFile, tenant } = context.options;
  if (backup === undefined) {
    if (keyFile !== undefined || tenant !== undefined) {
      throw usageError('--master-key-file and --tenant require --backup');
    }
    return (await context.client()).audit.verify(known);
  }
  const { verifyBackup } = await import('@relay/server/operator');
  const { env, cwd } = context.environment;
  return verifyBackup({ env, cwd }, { backup, keyFile, tenant: tenant ?? 'default', known });
}

type Head = Pick<AuditHead, 'seq' | 'hash'>;

function headIn({ seq, hash }: Record<string, unknown>): Head {
  if (typeof seq === 'number' && typeof hash === 'string') return { seq, hash };
  throw usageError(
    'The file contains no audit head',
    `create one with "${relay} audit head --json"`,
  );
}
