/*
 * Cases generated from the subcommands of real programs, as their help texts list them (git 2.39, npm 11,
 * cargo 1.95, kubectl 1.32, docker 28, terraform 1.11, pip 23, apt 2.6); those of go are written from
 * memory. The classification is made here again, apart from the tables under test.
 */
import { type Expected, type Group, ofKind } from './group.ts';

interface RealProgram {
  /** Options in front of the subcommand that change neither what runs nor where. */
  readonly harmless: readonly string[];
  /** Options in front of the subcommand that do. */
  readonly changing: readonly string[];
  readonly reads: string;
  /** Writes a file, changes a remote system, or contacts a host that an argument names. */
  readonly writes: string;
  /** Runs code that an argument, a file or a package contains. */
  readonly runs: string;
  /** Commands under another name, and the one that deny rules spell. */
  readonly otherNames: readonly (readonly [command: string, subcommand: string])[];
}

export const realPrograms: Readonly<Record<string, RealProgram>> = {
  git: {
    harmless: ['--no-pager', '-P', '--literal-pathspecs', '--no-optional-locks'],
    changing: [
      '-C .',
      '-c a=b',
      '--git-dir .git',
      '--namespace x',
      '--exec-path=x',
      '--work-tree=.',
    ],
    reads:
      'log -5|status -s|diff HEAD|show HEAD|blame x|grep x|ls-files|ls-tree HEAD|rev-parse HEAD|rev-list HEAD|' +
      'shortlog -s|describe --tags|cat-file -p HEAD|branch|branch -a|branch -vv|branch --list x|tag|tag -l v1|' +
      'remote|remote -v|remote get-url origin|stash list|stash show|notes list|reflog|reflog show|' +
      'worktree list|for-each-ref|show-ref|merge-base a b|name-rev HEAD|count-objects -v|check-ignore x',
    writes:
      'add x|am x|apply x|archive HEAD|bisect start|branch x|branch -D x|branch -m a b|branch -f x y|' +
      'branch --edit-description|bundle create x HEAD|checkout x|checkout-index -a|cherry-pick x|clean -fd|' +
      'clone x|commit -m x|commit-graph write|commit-tree x|config alias.z x|credential fill|' +
      'fast-export HEAD|fast-import|fetch|fetch-pack x|format-patch HEAD|gc|hash-object -w x|index-pack x|' +
      'init|ls-remote x|merge x|merge-file a b c|mktag|mktree|mv a b|notes add|notes remove|pack-objects x|' +
      'pack-refs|prune|pull|push|read-tree x|rebase x|reflog delete x|reflog expire|remote add a b|' +
      'remote remove a|remote set-url a b|remote update|repack|replace a b|rerere|reset --hard|restore x|' +
      'revert x|rm x|send-pack x|sparse-checkout set x|stash|stash drop|stash pop|stash push|submodule update|' +
      'switch x|symbolic-ref HEAD x|tag v1|tag -d v1|tag -f v1|unpack-objects|update-index --add x|' +
      'update-ref x y|worktree add x|worktree remove x|write-tree|log --output=x|diff --output x',
    runs:
      'bisect run x|daemon|difftool|filter-branch|for-each-repo --config=x y|help x|hook run x|instaweb|' +
      'maintenance run|mergetool|p4 sync|rebase -x y|send-email x|shell|submodule foreach x|svn fetch|' +
      'grep -Ox y|diff --ext-diff|merge-index x y|http-backend|z',
    otherNames: [
      ['git-push origin', 'push'],
      ['git stage x', 'add'],
      ['/usr/lib/git-core/git-push origin', 'push'],
      ['git remote -v add a b', 'remote add'],
      ['git notes --ref=x remove', 'notes remove'],
      ['git notes --ref x remove', 'notes remove'],
    ],
  },
  npm: {
    harmless: ['--silent', '-s', '--loglevel warn', '--json', '--no-color'],
    changing: [
      '--prefix x',
      '-C x',
      '--userconfig=x',
      '--script-shell x',
      '--node-options=x',
      '--registry=x',
    ],
    reads:
      'ls --depth=0|ll|list|outdated|view x|info x|root|prefix|ping|whoami|search x|explain x|why x|query x|' +
      'config get x|config list|pkg get x|version|run|dist-tag ls x|owner ls x|sbom|audit',
    writes:
      'access set x|adduser|audit fix|cache clean|ci|config set a b|config delete a|config edit|dedupe|' +
      'deprecate x y|dist-tag add x|init|install x|link|login|logout|org set x|owner add x|pack|pkg set a=b|' +
      'pkg delete a|profile set a|prune|publish|set a=b|shrinkwrap|star x|team add x|token create|' +
      'uninstall x|unpublish x|update|version patch|ls --prefix=x|view x --registry=y',
    runs:
      'exec x|x y|test|start|stop|restart|run build|run-script build|rebuild|explore x|edit x|docs x|repo x|' +
      'bugs x|help x|install-test|install-ci-test|exe -- x|exe x|ru build|tes|unknown',
    otherNames: [
      ['npm --silent exe -- x', 'exec'],
      ['npm exe -- x', 'exec'],
      ['npm x y', 'exec'],
      ['npx x', 'exec'],
      ['npm --json false exec x', 'exec'],
      ['npm run-script build', 'run'],
      ['npm rum build', 'run'],
      ['npm runScript build', 'run'],
      ['npm run-s build', 'run'],
      ['npm i x', 'install'],
      ['npm isntall x', 'install'],
      ['npm instal x', 'install'],
      ['npm add x', 'install'],
      ['npm unins x', 'uninstall'],
      ['npm rm x', 'uninstall'],
      ['npm publ', 'publish'],
      ['npm c set a b', 'config set'],
      ['npm set a=b', 'config set'],
      ['npm config --json set a b', 'config set'],
      ['npm run test', 'test'],
      ['npm t', 'test'],
    ],
  },
  cargo: {
    harmless: ['-q', '--color never', '--locked', '--offline', '-v'],
    changing: ['+nightly', '--config x=y', '-C x', '-Z x'],
    reads: 'version|locate-project',
    writes:
      'add x|clean|fetch|generate-lockfile|init|login|logout|new x|owner x|package|publish|remove x|' +
      'uninstall x|update|vendor|yank x|metadata --config=x|tree --manifest-path x/Cargo.toml',
    runs: 'tree|tree -d|metadata --no-deps|pkgid|search x|bench|build|check|clippy|doc|fix|fmt|install x|miri run|run|rustc|rustdoc|test|b|c|d|r|t|rm x|z',
    otherNames: [
      ['cargo r -- x', 'run'],
      ['cargo b', 'build'],
      ['cargo t x', 'test'],
      ['cargo +nightly r', 'run'],
      ['cargo rm x', 'remove'],
      ['cargo-clippy x', 'clippy'],
    ],
  },
  kubectl: {
    harmless: ['-n x', '--namespace=x', '--namespace x', '--request-timeout 5s'],
    changing: [
      '--kubeconfig x',
      '--context x',
      '--as x',
      '-s x',
      '--server=x',
      '--token x',
      '--cache-dir=x',
    ],
    reads:
      'get pods -o wide|get pods -A|describe pod x|logs x --tail 5|top pod|top nodes|explain pods|version|' +
      'api-resources|api-versions|cluster-info|config view|config get-contexts|config current-context|' +
      'auth can-i get pods|auth whoami|rollout status deploy/x|rollout history deploy/x|events',
    writes:
      'annotate pod x a=b|apply -f x|autoscale deploy x|certificate approve x|cordon x|cp a b|create ns x|' +
      'delete pod x|drain x|edit pod x|expose pod x|label pod x a=b|patch pod x|port-forward x 80|proxy|' +
      'replace -f x|rollout restart deploy/x|rollout undo deploy/x|scale deploy x|set image deploy/x a=b|' +
      'taint node x a=b|uncordon x|config set a b|config use-context x|config delete-context x|config unset a|' +
      'auth reconcile -f x|cluster-info dump|get --raw /x|get pods --kubeconfig=x|get -f x|config view --raw|' +
      'get pods --profile-output=x',
    runs: 'attach x|exec x -- y|run x --image=y|debug x|kustomize x|diff -f x|plugin list|unknown-plugin',
    otherNames: [
      ['kubectl config --kubeconfig=x set a b', 'config set'],
      ['kubectl config --kubeconfig x set a b', 'config set'],
      ['kubectl config use x', 'config use-context'],
      ['kubectl rollout -n x undo deploy/x', 'rollout undo'],
    ],
  },
  docker: {
    harmless: ['-D', '--debug', '-l info', '--log-level=info'],
    changing: ['-H x', '--host=x', '--config x', '-c x', '--context x', '--tlscacert x'],
    reads:
      'ps -a|images|info|version|logs x|inspect x|top x|stats --no-stream|port x|history x|container ls|' +
      'container logs x|image ls|image inspect x|volume ls|network ls|network inspect x|context ls|system df|' +
      'service ls|node ls|stack ls',
    writes:
      'attach x|commit x|container rm x|container prune|context create x|context use x|cp a b|create x|' +
      'export x|image rm x|image prune|import x|kill x|load|login|logout|manifest create x|network rm x|' +
      'network create x|node rm x|pause x|plugin install x|pull x|push x|rename a b|restart x|rm x|rmi x|' +
      'save x|secret rm x|service rm x|service update x|stack rm x|start x|stop x|swarm leave|system prune|' +
      'tag a b|trust sign x|unpause x|update x|volume rm x|volume create x|wait x',
    runs: 'run x|exec x y|build .|compose up|compose run x|buildx build .|container exec x y|unknown-plugin',
    otherNames: [
      ['docker --host x container rm y', 'rm'],
      ['docker container rm y', 'rm'],
      ['docker container remove y', 'rm'],
      ['docker rm y', 'container rm'],
      ['docker image rm y', 'rmi'],
      ['docker rmi y', 'image rm'],
      ['docker container run x', 'run'],
      ['docker-compose up', 'compose up'],
      ['docker -Dc x rm y', 'rm'],
    ],
  },
  terraform: {
    harmless: [],
    changing: ['-chdir=x'],
    reads: 'version|workspace show|fmt -check',
    writes:
      'apply|destroy|fmt|force-unlock x|get|import a b|init|login|logout|refresh|state mv a b|state rm a|' +
      'state push x|state replace-provider a b|taint x|untaint x|workspace new x|workspace delete x|' +
      'workspace select x|providers lock|providers mirror x',
    runs: 'output|output -json|state list|providers|workspace list|console|plan|test|validate|show|graph|providers schema',
    otherNames: [['terraform -chdir=x state rm a', 'state rm']],
  },
  pip: {
    harmless: ['-q', '-v', '--isolated', '--no-input', '--no-color'],
    changing: ['--python x', '--log x', '--proxy x', '--cache-dir x', '--trusted-host x'],
    reads: 'list|list -o|show x|freeze|check|inspect|cache dir|cache list|hash x',
    writes:
      'cache purge|cache remove x|config set a b|config unset a|config edit|download x|uninstall x|' +
      'list --log x|list --lo=x|show --python=x y',
    runs: 'install x|wheel x|inst x',
    otherNames: [
      ['pip3 install x', 'install'],
      ['pip3.11 -q install x', 'install'],
    ],
  },
  go: {
    harmless: [],
    changing: ['-C x', '-C=x'],
    reads: 'version|env|env GOPATH|list -m all|list ./x|doc fmt|mod graph|mod why x',
    writes:
      'clean|env -w a=b|env -u a|fmt|get x|install x|mod tidy|mod edit x|mod init x|mod download|mod vendor|' +
      'work init|fix|list -mod=mod x|list -modfile=x y',
    runs: 'build|generate|run x|test|tool x|vet|list -toolexec x y|list -export x|vet -vettool=x|bug|telemetry on',
    otherNames: [],
  },
  apt: {
    harmless: ['-q', '-qq'],
    changing: ['-y', '-o a=b', '-c x', '-t x', '--option=a=b'],
    reads:
      'list|list --installed|show x|search x|policy x|depends x|rdepends x|showsrc x|madison x',
    writes:
      'install x|reinstall x|remove x|purge x|autoremove|update|upgrade|full-upgrade|dist-upgrade|' +
      'edit-sources|satisfy x|clean|autoclean|download x|source x|build-dep x|list -o a=b|show -c x y',
    runs: 'in x|changelog x|unknown',
    otherNames: [['apt -y auto-remove', 'autoremove']],
  },
};

export interface GeneratedCase {
  readonly expected: Expected;
  readonly command: string;
  /** What bash runs in the end; undefined if that cannot be tried here. */
  readonly argv: string | undefined;
}

export interface GeneratedGroup {
  readonly program: string;
  readonly group: Group;
  readonly cases: readonly GeneratedCase[];
}

const shell = ofKind('command', 'command');
const split = (text: string) => text.split('|');
const pick = <T>(list: readonly T[], at: number): readonly T[] =>
  list.slice(at % list.length).slice(0, 1);

const plain = (program: string, words: string) => `${program} ${words}`;
/** The same command, written in other ways that need no other rule. */
const spellings: readonly ((program: string, words: string) => string)[] = [
  (program, words) => `${program} ${words.replace(/^\S+/, '"$&"')}`,
  (program, words) => `${program} ${words.replace(/^\S/, '\\$&')}`,
  (program, words) => `${program}  ${words} 2>/dev/null`,
  (program, words) => `./${program} ${words}`,
  (program, words) => `timeout 5 ${program} ${words}`,
  (program, words) => `echo x && ${program} ${words}`,
];
/** Those that only deny rules look through. */
const hidden: readonly ((program: string, words: string) => string)[] = [
  (program, words) => `env A=b ${program} ${words}`,
  (program, words) => `sudo -u x ${program} ${words}`,
  (program, words) => `bash -c '${program} ${words}'`,
  (program, words) => `x=$(${program} ${words})`,
  (program, words) => `if ${program} ${words}; then :; fi`,
];

function generate(
  expected: Expected,
  program: string,
  entry: string,
  { options, shapes }: { options: readonly string[]; shapes: typeof spellings },
): GeneratedCase[] {
  const written = [
    ...options.map((option) => [`${option} ${entry}`, plain] as const),
    ...shapes.map((shape) => [entry, shape] as const),
  ];
  return written.map(([words, shape]) => {
    return { expected, command: shape(program, words), argv: `${program} ${words}` };
  });
}

const underWildcard = Object.entries(realPrograms).map(([program, table]): GeneratedGroup => {
  const { harmless, changing, reads, writes, runs } = table;
  const cases = [
    ...split(reads).flatMap((entry, at) => [
      ...generate('allow', program, entry, {
        options: [...pick(harmless, at), ...pick(harmless, at + 1)],
        shapes: [plain, ...pick(spellings, at), ...pick(spellings, at + 1)],
      }),
      ...generate('ask', program, entry, {
        options: [...pick(changing, at), '--unknown-option x', '--unknown-option'],
        shapes: pick(hidden, at),
      }),
    ]),
    ...[...split(writes), ...split(runs)].flatMap((entry, at) =>
      generate('ask', program, entry, {
        options: [...pick(harmless, at), ...pick(changing, at)],
        shapes: [plain, ...pick(spellings, at)],
      }),
    ),
  ];
  const allow = [`${program} *`, `${program}*`, `./${program} *`, 'timeout *', 'echo *'];
  return groupOf(program, `a wildcard for the subcommands of ${program}`, { allow }, cases);
});

const underDenial = Object.entries(realPrograms).flatMap(([program, table]): GeneratedGroup[] => {
  const { harmless, changing, reads, writes, runs, otherNames } = table;
  const denied = [...split(writes), ...split(runs)];
  const forbidden = (expected: 'deny' | 'ask') => [
    ...denied.flatMap((entry, at) =>
      generate(expected, program, entry, {
        options: [
          ...pick(harmless, at),
          ...pick(changing, at),
          ...[...pick(harmless, at), ...pick(changing, at)]
            .slice(-1)
            .map((last) => `${last} ${last}`),
          '--unknown-option x',
          '--unknown-option',
        ],
        shapes: [plain, ...pick(spellings, at), ...pick(hidden, at)],
      }),
    ),
    ...otherNames.map(([command]) => ({ expected, command, argv: undefined })),
  ];
  const readers = split(reads)
    .filter((entry) => !denied.some((other) => entry.split(' ', 1)[0] === other.split(' ', 1)[0]))
    .flatMap((entry, at) =>
      generate('allow', program, entry, {
        options: [...pick(harmless, at), ...pick(changing, at)],
        shapes: [plain, ...pick(spellings, at)],
      }),
    );
  const patterns = [...denied, ...otherNames.map(([, subcommand]) => subcommand)].map(
    (entry) => `${program} ${entry}*`,
  );
  const trick = `options in front of a subcommand of ${program}`;
  return [
    groupOf(program, `${trick} that a rule denies`, { deny: patterns }, [
      ...forbidden('deny'),
      ...readers,
    ]),
    groupOf(program, `${trick} that a rule asks about`, { ask: patterns }, forbidden('ask')),
  ];
});

function groupOf(
  program: string,
  trick: string,
  patterns: Parameters<typeof shell>[1],
  all: readonly GeneratedCase[],
): GeneratedGroup {
  const cases = [...new Map(all.map((each) => [each.command, each])).values()];
  const group = shell(
    trick,
    patterns,
    cases.map(({ expected, command }) => [expected, command] as const),
  );
  return { program, group, cases };
}

export const generatedGroups = [...underWildcard, ...underDenial];
export const subcommands: readonly Group[] = generatedGroups.map(({ group }) => group);
