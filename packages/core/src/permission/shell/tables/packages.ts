import type { SubcommandTable } from '../subcommands.ts';

/*
 * Package managers and build tools. Those that evaluate files of the folder (`Gemfile`, `.yarnrc.yml`,
 * `.pnpmfile.cjs`, project files of MSBuild) have no readers: they run what the files say, whatever the
 * subcommand. So do those of cargo that call rustc or a registry, with the programs and the `PATH` of
 * `.cargo/config.toml`.
 */
const NPM_OPTIONS =
  '-s --silent -q --quiet -d -dd -ddd --verbose --loglevel= --color --no-color --no-progress ' +
  '--no-fund --no-audit --no-update-notifier --json -l --long -p --parseable --offline ' +
  '--prefer-offline -w= --workspace= -ws --workspaces --include-workspace-root -v --version';
const NPM_CHANGING =
  '-C= --prefix= -c= --call= --browser= --cache= --editor= --git= --globalconfig= --init-module= ' +
  '--node-options= --registry= --script-shell= --shell= --userconfig= --viewer= -g --global ' +
  '-y --yes -n --no -h --help -f --force --location= --cwd= --dir= --filter= -F= --package= ' +
  '--ignore-scripts --config= --use-yarnrc= -r --recursive --tag= --otp= --proxy= --https-proxy= ' +
  '--cafile= --logs-dir=';

export const packages: Readonly<Record<string, SubcommandTable>> = {
  npm: {
    options: NPM_OPTIONS,
    changing: NPM_CHANGING,
    abbreviates: true,
    readers: `
      audit! --omit= --include= --audit-level= --package-lock-only
      config get
      config list
      config ls
      dist-tag ls
      explain
      get
      ll --depth= -a --all --omit= --include= -g --global --link --package-lock-only --unicode
      ls --depth= -a --all --omit= --include= -g --global --link --package-lock-only --unicode --prod --production --dev
      outdated --depth= -a --all -g --global
      owner ls
      ping
      pkg get
      prefix -g --global
      query --package-lock-only --global -g
      root -g --global
      run!
      sbom --omit= --package-lock-only --sbom-format= --sbom-type=
      search --searchlimit= --searchopts= --searchexclude= --description --no-description
      version!
      view --tag=
      whoami`,
    groups: 'access cache org profile team token trust',
    aliases: `
      adduser|add-user
      bugs|issues
      ci|clean-install|ic|install-clean|isntall-clean
      config|c
      config get|get|c get
      config set|set|c set
      config list|config ls|c list|c ls
      dedupe|ddp
      dist-tag|dist-tags
      docs|home
      exec|x
      explain|why
      help|hlep
      init|create|innit
      install|i|in|ins|inst|insta|instal|isnt|isnta|isntal|isntall|add
      install-ci-test|cit|clean-install-test|sit
      install-test|it
      link|ln
      ll|la
      ls|list
      org|ogr
      owner|author
      rebuild|rb
      restart|run restart|run-script restart
      run|run-script|rum|urn
      search|find|s|se
      start|run start|run-script start
      stop|run stop|run-script stop
      test|t|tst|run test|run-script test|rum test|urn test
      uninstall|unlink|remove|rm|r|un
      update|u|up|upgrade|udpate
      version|verison
      view|info|show|v`,
    others:
      'approve-scripts completion deny-scripts deprecate diff doctor edit explore find-dupes fund ' +
      'help-search install-scripts login logout pack prune publish repo set shrinkwrap stage star stars ' +
      'undeprecate unpublish unstar',
  },
  pnpm: {
    options: NPM_OPTIONS,
    changing: NPM_CHANGING,
    runsScripts: true,
    groups: 'cache config env licenses store',
    aliases: `
      config|c
      exec|x
      install|i
      link|ln
      list|ls|la|ll
      rebuild|rb
      remove|rm|uninstall|un
      run|run-script
      test|t|tst|run test
      update|up|upgrade`,
    others:
      'add approve-builds audit bin catalog cat-file cat-index ci dedupe deploy dlx doctor fetch ' +
      'find-hash ignored-builds import init install-test it login logout outdated pack patch patch-commit ' +
      'patch-remove prune publish restart root self-update server set setup start stop unlink version view why',
  },
  yarn: {
    changing: NPM_CHANGING,
    options: NPM_OPTIONS,
    actsAlone: true,
    runsScripts: true,
    groups: 'cache config global npm plugin policies set workspace workspaces',
    aliases: `
      remove|rm
      test|run test|t
      up|upgrade`,
    others:
      'access add audit autoclean bin check constraints create dedupe dlx exec explain generate-lock-entry ' +
      'help import info init install licenses link list login logout node outdated owner pack patch ' +
      'patch-commit prolog publish rebuild run search self-update stage start tag team unlink unplug ' +
      'upgrade-interactive version versions why',
  },
  'bun deno': {
    options: '--version -v --revision --silent',
    changing:
      '--cwd= -c= --config= --env-file= -r= --preload= --filter= -b --bun -i --install= -e= --eval=',
    runsScripts: true,
    groups: 'pm',
    aliases: `
      add|a
      install|i
      remove|rm
      run|r`,
    others:
      'audit bench build bundle cache check clean compile completions coverage create deploy dlx doc ' +
      'eval exec fmt info init jsr jupyter link lint lsp outdated patch publish repl serve task test ' +
      'types uninstall unlink update upgrade vendor why x',
  },
  cargo: {
    options:
      '-V --version --list -v -vv --verbose -q --quiet --color= --locked --offline --frozen -h --help',
    changing: '-C= -Z= --config= --explain=',
    readers: `
      locate-project --workspace --message-format=
      version`,
    groups: 'config report',
    aliases: `
      build|b
      check|c
      doc|d
      remove|rm
      run|r
      test|t`,
    others:
      'add bench clean clippy fetch fix fmt generate-lockfile git-checkout help info init install login ' +
      'logout metadata miri new nextest owner package pkgid publish read-manifest rustc rustdoc search tree ' +
      'uninstall update vendor verify-project yank',
  },
  rustup: {
    options: '-v --verbose -q --quiet -V --version',
    readers: `
      component list --installed
      target list --installed
      toolchain list -v --verbose`,
    groups: 'override self set',
    aliases: `
      install|toolchain install|toolchain add
      uninstall|toolchain uninstall|toolchain remove`,
  },
  pip: {
    options:
      '-V --version -v --verbose -q --quiet --isolated --no-input --no-color --debug ' +
      '--disable-pip-version-check --no-python-version-warning --require-virtualenv --no-cache-dir ' +
      '-h --help',
    changing:
      '--python= --log= --log-file= --local-log= --proxy= --retries= --timeout= --exists-action= ' +
      '--trusted-host= --cert= --client-cert= --cache-dir= --use-feature= --use-deprecated= ' +
      '--keyring-provider=',
    readers: `
      cache dir
      cache info
      cache list --format=
      check
      freeze -l --local --user --all --exclude= --exclude-editable
      hash -a= --algorithm=
      inspect --local --user
      list -o --outdated -u --uptodate -e --editable -l --local --user --pre --format= --not-required --exclude= --exclude-editable --include-editable
      show -f --files`,
    groups: 'config index',
  },
  go: {
    changing: '-C=',
    readers: `
      doc -all -c -cmd -short -src -u
      env -json -changed
      list -m -json -f= -deps -e -find -test -u -versions -retracted -tags=
      mod graph -go=
      mod why -m -vendor
      version -m -v`,
    groups: 'mod tool work',
  },
  gem: {
    options: '-v --version -q --quiet --silent --verbose --no-verbose --norc --backtrace --debug',
    changing: '--config-file= -C=',
    readers: `
      environment!
      env!
      list -l --local -r --remote -a --all -d --details --no-details -e --exact --versions --no-versions
      outdated
      search -l --local -r --remote -a --all -d --details --no-details -e --exact
      which -a --all`,
    groups: 'sources',
    aliases: `
      install|i
      search|query`,
    others:
      'build cert check cleanup contents dependency exec fetch generate_index help info lock mirror open ' +
      'owner pristine push rdoc rebuild server signin signout specification stale uninstall unpack update yank',
    abbreviates: true,
  },
  brew: {
    options: '-v --version -q --quiet --verbose -d --debug',
    readers: `
      config
      leaves! -r --installed-on-request -p --installed-as-dependency
      list! -1 -l -r -t --formula --formulae --cask --casks --full-name --versions --pinned --multiple
      outdated! --formula --cask --json --greedy`,
    groups: 'bundle cask services tap',
    aliases: `
      list|ls
      info|abv
      install|instal
      uninstall|rm|remove
      update|up`,
  },
  conda: {
    options: '-V --version -v --verbose -q --quiet --json',
    readers: `
      env list
      info! -a --all -e --envs --base
      list -n= --name= -e --export --explicit --revisions --full-name`,
    groups: 'env',
    aliases: `
      remove|uninstall
      update|upgrade`,
  },
  poetry: {
    options: '-V --version -v -vv -vvv --verbose -q --quiet --ansi --no-ansi -n --no-interaction',
    changing: '-C= --directory= -P= --project= --no-plugins --no-cache',
    groups: 'cache config debug env self source',
  },
  bundle: { actsAlone: true, options: '-v --version', groups: 'plugin config' },
  'composer corepack dart dotnet flutter gradle lein maturin mix mvn nix nvm opam pdm pipenv pixi pod rebar rye sbt stack uv volta mamba micromamba hatch cabal rake':
    { options: '--version -V', changing: '-C= -d= -f= --file= --directory= --project=' },
};
