/*
 * What a command may do that an approver should not overlook, by the names and arguments of the programs
 * in it. It helps a reader and decides nothing. That an effect is missing proves nothing: any program may
 * do anything, only well-known ones are listed, and what could not be parsed is not read.
 */
import type { CommandEffect, CommandSegment } from '@relay/protocol';
import { INTERPRETERS, programName } from './programs.ts';

interface Invocation {
  readonly name: string;
  readonly isKnown: boolean;
  readonly args: string[];
}

const tables: readonly (readonly [CommandEffect, string])[] = [
  ['deletes', 'rm rmdir unlink shred wipe srm'],
  ['changes-files', 'mv cp dd tee truncate install ln rsync patch touch mkdir unzip tar'],
  ['changes-permissions', 'chmod chown chgrp setfacl chattr'],
  ['installs', 'npx bunx pnpx uvx apt apt-get aptitude dnf yum apk pacman zypper brew dpkg rpm'],
  ['publishes', 'twine'],
  ['network', 'curl wget ssh scp sftp rsync nc ncat netcat socat telnet ftp'],
  ['privileges', 'sudo sudoedit su doas pkexec runuser'],
  [
    'system',
    'fdisk sfdisk parted wipefs mkswap mount umount shutdown reboot halt poweroff systemctl service ' +
      'kill pkill killall crontab iptables nft',
  ],
  ['runs-code', 'eval source . xargs parallel make awk gawk'],
];
const byName = new Map<string, CommandEffect[]>();
for (const [effect, names] of tables) {
  for (const name of names.split(' ')) byName.set(name, [...(byName.get(name) ?? []), effect]);
}

type Subcommands = readonly (readonly [CommandEffect, RegExp])[];

/** Tested against the arguments, joined by spaces. */
const packages: Subcommands = [
  ['installs', /^(?:\S+ )*?(?:install|i|ci|add|update|upgrade|dlx|exec|x|link)(?: |$)/],
  ['publishes', /^(?:\S+ )*?(?:publish|unpublish|deprecate|push|upload)(?: |$)/],
];
const containers: Subcommands = [
  ['publishes', /^(?:\S+ )*?push(?: |$)/],
  ['network', /^(?:\S+ )*?(?:pull|push)(?: |$)/],
  ['deletes', /^(?:\S+ )*?(?:rm|rmi|prune|delete)(?: |$)/],
];
const infrastructure: Subcommands = [
  ['publishes', /^(?:\S+ )*?(?:apply|create|replace|patch|deploy|destroy|delete|release)(?: |$)/],
  ['deletes', /^(?:\S+ )*?(?:destroy|delete)(?: |$)/],
  ['network', /./],
];
const bySubcommand = new Map<string, Subcommands>([
  ...'npm pnpm yarn bun pip pipx uv poetry cargo gem go composer conda mamba'
    .split(' ')
    .map((name) => [name, packages] as const),
  ...'docker podman nerdctl'.split(' ').map((name) => [name, containers] as const),
  ...'kubectl oc helm terraform tofu vercel netlify fly heroku gh aws gcloud az'
    .split(' ')
    .map((name) => [name, infrastructure] as const),
  ['find', [['deletes', /(?:^| )-delete(?: |$)/]]],
  ['sed', [['changes-files', /(?:^| )(?:-[a-zA-Z]*i\S*|--in-place\S*)(?: |$)/]]],
  ['dd', [['system', /(?:^| )of=\/dev\//]]],
  [
    'git',
    [
      ['publishes', /^(?:\S+ )*?push(?: |$)/],
      ['network', /^(?:\S+ )*?(?:push|pull|fetch|clone)(?: |$)/],
      ['deletes', /^(?:\S+ )*?(?:clean|rm|restore|stash (?:drop|clear))(?: |$)/],
      ['deletes', /^(?:\S+ )*?checkout (?:.* )?(?:--|\.|-f|--force)(?: |$)/],
      ['rewrites-history', /^(?:\S+ )*?(?:rebase|filter-branch|filter-repo|reflog expire)(?: |$)/],
      ['rewrites-history', /^(?:\S+ )*?reset (?:.* )?--hard(?: |$)/],
      ['rewrites-history', /^(?:\S+ )*?commit (?:.* )?--amend(?: |$)/],
      ['rewrites-history', /^(?:\S+ )*?branch (?:.* )?-[a-zA-Z]*D/],
      ['rewrites-history', /^(?:\S+ )*?push (?:.* )?(?:-[a-zA-Z]*f|--force|--mirror|--delete|\+)/],
    ],
  ],
]);

/** In the order in which they are shown. */
const order: readonly CommandEffect[] = [
  'privileges',
  'deletes',
  'system',
  'rewrites-history',
  'publishes',
  'changes-permissions',
  'changes-files',
  'installs',
  'network',
  'runs-code',
];

export function effectsOf(segments: readonly CommandSegment[]): CommandEffect[] {
  const found = new Set<CommandEffect>();
  if (segments.some(({ role, text }) => role === 'redirection' && writesFile(text))) {
    found.add('changes-files');
  }
  for (const invocation of invocationsOf(segments)) addEffects(found, invocation);
  return order.filter((effect) => found.has(effect));
}

function addEffects(found: Set<CommandEffect>, { name, isKnown, args }: Invocation): void {
  if (!isKnown) found.add('runs-code');
  const program = programName(name);
  for (const effect of byName.get(program) ?? []) found.add(effect);
  if (program.startsWith('mkfs')) found.add('system');
  if (INTERPRETERS.has(program)) found.add('runs-code');
  const text = args.join(' ').slice(0, maxArguments);
  for (const [effect, pattern] of bySubcommand.get(program) ?? []) {
    if (pattern.test(text)) found.add(effect);
  }
}

/** Subcommands and options that matter come first; patterns stay fast. */
const maxArguments = 2_000;

/** `> file`, `2>> file`; not `< file`, `2>&1`, `> /dev/null`. */
function writesFile(text: string): boolean {
  return (
    text.includes('>') && !/>&\d|>\|?\s*["']?\/dev\/(?:null|stdout|stderr|fd\/\d+)["']?$/.test(text)
  );
}

/** Each program of the command with the words after it, also those of wrappers: `sudo rm x` is two. */
function invocationsOf(segments: readonly CommandSegment[]): Invocation[] {
  const all: Invocation[] = [];
  let open: Invocation[] = [];
  for (const [at, { text, role }] of segments.entries()) {
    const word = unquoted(text);
    switch (role) {
      case 'operator':
      case 'unparsed':
        open = [];
        break;
      case 'command':
      case 'possible-command':
      case 'wrapper': {
        const next = segments[at + 1];
        // `r$(echo m)`: the shell completes the name.
        const isKnown = next?.role !== 'expansion' || !/^[$`]/.test(next.text);
        for (const { args } of open) args.push(word);
        const started = { name: word, isKnown, args: [] };
        open.push(started);
        all.push(started);
        break;
      }
      case 'option':
      case 'argument':
        for (const { args } of open) args.push(word);
        break;
      case 'assignment':
      case 'keyword':
      case 'redirection':
      case 'expansion':
      case 'comment':
      case 'space':
        break;
    }
  }
  return all;
}

/** One word stays one word. */
function unquoted(text: string): string {
  return text.replaceAll(/["'\\]/g, '').replaceAll(/\s/g, '_');
}
