import { describe, expect, it } from 'vitest';
import { literalPrefixLength } from '../../../src/permission/glob/pattern-text.ts';
import { allowsCommand, suggestedPattern } from '../../../src/permission/shell/allow.ts';

const allows = (source: string, ...patterns: string[]): boolean => allowsCommand(source, patterns);

describe('the literal prefix of a pattern', () => {
  it.each([
    ['ls', 2],
    ['ls *', 3],
    ['sudo apt?', 8],
    ['a[b]', 1],
    ['{a,b}', 0],
    ['@(a|b) c', 0],
    ['g++ a@b !c (', 11],
    ['a\\*b', 1],
    ['', 0],
  ])('of %j has %i characters', (pattern, length) => {
    expect(literalPrefixLength(pattern)).toBe(length);
  });
});

describe('a wildcard', () => {
  it('matches arguments, and not more of a name', () => {
    expect(allows('ls -la', 'ls*')).toBe(true);
    expect(allows('lsblk -a', 'ls*')).toBe(false);
    expect(allows('grep -r x src', '@(ls|cat|grep) *')).toBe(true);
    expect(allows('rm -rf x', '*')).toBe(true);
    expect(allows('ls a; rm b', '*')).toBe(true);
  });

  it('does not match the folder of a program', () => {
    expect(allows('./scripts/check x', './scripts/*')).toBe(true);
    expect(allows('./scripts/../evil x', './scripts/*')).toBe(false);
    expect(allows('./scripts/a/evil x', './scripts/*')).toBe(false);
    expect(allows('lsx/evil', 'ls*')).toBe(false);
    expect(allows('/tmp/evil', '*')).toBe(false);
  });

  it('does not match code', () => {
    expect(allows('python x.py', 'python *')).toBe(false);
    expect(allows('python3.11 x.py', 'python*')).toBe(false);
    expect(allows('python manage.py migrate', 'python manage.py *')).toBe(true);
    expect(allows('python manage.pyc migrate', 'python manage.py*')).toBe(false);
    expect(allows('python -c x', 'python -c *')).toBe(false);
    expect(allows('node -e x', '*')).toBe(false);
    expect(allows('bash check.sh a', 'bash check.sh *')).toBe(true);
    expect(allows('/usr/bin/env node x.js', '/usr/bin/env *')).toBe(false);
    expect(allows('eval x', 'eval *')).toBe(false);
    expect(allows('eval echo x', 'eval echo *')).toBe(false);
    expect(allows('awk 1 f', 'awk *')).toBe(false);
    expect(allows('sed -n 1p f', 'sed -n *')).toBe(false);
    expect(allows('source f', 'source *')).toBe(false);
    expect(allows('deno run x.ts', 'deno run *')).toBe(false);
    expect(allows("make test CC='x; y'", 'make test *')).toBe(false);
    expect(allows('sqlite3 db x', 'sqlite3 *')).toBe(false);
    expect(allows('. f', '. *')).toBe(false);
    expect(allows('export PATH', 'export *')).toBe(false);
    expect(allows('trap x EXIT', 'trap *')).toBe(false);
  });

  it('does not match an option by which a reading program acts', () => {
    for (const acting of [
      'find . -exec x {} +',
      'find . -delete',
      'find . -fprintf f x',
      'fd x -x y',
      'sort -o f x',
      'sort -uof x',
      'sort --out=f x',
      'sort --compress-program=x y',
      'git -c a=b log',
      'git log --output f',
      'git grep -Ox y',
      'git grep --open x',
      'rg --pre x y',
      'tar -cf x --checkpoint-action=exec=y z',
      'tar cf x *',
      'printf -v x y',
      'tree -o f',
    ]) {
      expect(allows(acting, '*')).toBe(false);
      if (!/[*{]/.test(acting)) expect(allows(acting, acting)).toBe(true);
    }
    for (const reading of [
      'find . -name x',
      'sort -u x',
      'git log -5',
      'rg -n x',
      'git add -- -x',
    ]) {
      expect(allows(reading, '*')).toBe(reading !== 'git add -- -x');
    }
  });

  it('does not match the command that a wrapper runs', () => {
    expect(allows('sudo apt update', 'sudo *')).toBe(false);
    expect(allows('sudo apt list', '*', '* *')).toBe(true);
    expect(allows('sudo apt list', 'sudo apt *')).toBe(true);
    expect(allows('sudo apt update', 'sudo apt *')).toBe(false);
    expect(allows('sudo apt update', 'sudo apt update*')).toBe(true);
    expect(allows('sudo aptitude x', 'sudo apt*')).toBe(false);
    expect(allows('sudo apt update', 'sudo *', 'apt *')).toBe(false);
    expect(allows('sudo apt update', 'sudo *', 'apt update*')).toBe(true);
    expect(allows('timeout 5 ls x', 'timeout *', 'ls *')).toBe(true);
    expect(allows('sudo ls -la x', 'sudo *', 'ls *')).toBe(true);
    expect(allows('timeout 5 rm x', 'timeout *', 'ls *')).toBe(false);
    expect(allows('timeout ls rm x', 'timeout *', 'ls *')).toBe(false);
    expect(allows('timeout 5 sudo nice ls x', 'timeout *', 'sudo *', 'nice *', 'ls *')).toBe(true);
    expect(allows('ls x', 'timeout *')).toBe(false);
    expect(allows('docker ps', 'docker *')).toBe(true);
    expect(allows('docker exec box ls', 'docker *', 'ls*')).toBe(false);
    expect(allows('docker exec box ls', 'docker exec *', 'ls*')).toBe(false);
    expect(allows('docker exec box ls', 'docker exec box ls*')).toBe(true);
    expect(allows('npm exec ls', 'npm exec *', 'ls*')).toBe(false);
    expect(allows('npm exe ls', 'npm exe *', 'ls*')).toBe(false);
    expect(allows('npm exec evil', 'npm *')).toBe(false);
    expect(allows('env', 'env*')).toBe(true);
  });

  it('does not match options and settings of a wrapper', () => {
    expect(allows('sudo -u me ls x', 'sudo *', 'ls *')).toBe(false);
    expect(allows('sudo -u me ls x', 'sudo -u me ls *')).toBe(true);
    expect(allows('env LD_PRELOAD=x ls y', 'env *', 'ls *')).toBe(false);
    expect(allows('env LANG=C ls y', 'env LANG=C ls *')).toBe(true);
    expect(allows('ssh -oProxyCommand=x ls ls', 'ssh *', 'ls*')).toBe(false);
    expect(allows('sudo -s', 'sudo *')).toBe(false);
    expect(allows("env -S'x y'", 'env *')).toBe(false);
    expect(allows('xargs cat', 'xargs *', 'cat*')).toBe(false);
    expect(allows('xargs cat', 'xargs cat*')).toBe(true);
  });

  it('does not match code behind a wrapper', () => {
    expect(allows('sudo python x.py', 'sudo python *')).toBe(false);
    expect(allows('sudo python x.py a', 'sudo python x.py *')).toBe(true);
    expect(allows('sudo find . -delete', 'sudo find *')).toBe(false);
    expect(allows('timeout 5 eval x', 'timeout 5 eval *')).toBe(false);
    expect(allows('sudo sudo sudo sudo sudo sudo ls', 'sudo *', 'ls*')).toBe(false);
  });
});

describe('a pattern without a wildcard', () => {
  it('allows its literal text, including code and options', () => {
    for (const source of [
      'python -m pytest',
      'python --version',
      'make test',
      'sed -n 1p f',
      'find . -delete',
      'sudo -u me python x.py',
      'export A',
      'xargs rm',
    ]) {
      expect(allows(source, source)).toBe(true);
    }
  });

  it('allows no code from a pipe', () => {
    for (const shell of ['bash', 'bash -s', 'python -', 'sudo bash', 'env sh', 'node']) {
      expect(allows(`echo x | ${shell}`, 'echo *', shell)).toBe(false);
    }
  });

  it('allows no structure that always requires an approval', () => {
    for (const source of [
      'ls > f',
      'A=b ls',
      'ls $x',
      'ls $(date)',
      'ls &',
      'if ls; then ls; fi',
      '"ls"',
    ]) {
      expect(allows(source, source)).toBe(false);
    }
  });
});

describe('a star directly after a word', () => {
  it.each([
    ['ls*', 'ls', true],
    ['ls*', 'ls -la', true],
    ['ls*', 'ls\t-la', true],
    ['ls*', 'lsof', false],
    ['ls*', 'lsof -i', false],
    ['ls*', 'ls-x', false],
    ['ls**', 'lsof', false],
    ['c*', 'cat x', false],
    ['git log*', 'git log', true],
    ['git log*', 'git log --oneline', true],
    ['git log*', 'git log-x', false],
    ['git log*', 'git logfoo -5', false],
    ['git*', 'git log', true],
    ['git*', 'gitk', false],
    ['npm run test*', 'npm run test:unit', true],
    ['cat src/a*', 'cat src/abc', true],
    ['python3 -m pytest*', 'python3 -m pytest -x tests', true],
    ['python -m *', 'python -m pytest', false],
    ['python -m pytest*', 'python -m pytest_evil', false],
    ['python -m cProfile*', 'python -m cProfile x.py', false],
    ['cat READ*', 'cat README.md', true],
    ['ls *', 'ls', false],
    ['*', 'lsof', true],
    ['@(ls|cat)*', 'ls -l', true],
  ])('%s on %j: %s', (pattern, command, granted) => {
    expect(allowsCommand(command, [pattern])).toBe(granted);
  });
});

const oneName = '[a-zA-Z0-9_]*([a-zA-Z0-9_.-])';

describe('the suggested pattern', () => {
  it.each([
    ['ls', 'ls'],
    ['ls -la', 'ls -la'],
    ['pwd', 'pwd'],
    ['git status -s', 'git status -s'],
    ['cat src/a.ts', `cat src/${oneName}`],
    ['head -n 5 src/lib/a.ts', `head -n 5 src/lib/${oneName}`],
    ['grep -n todo src/a.ts', `grep -n todo src/${oneName}`],
    ['git diff src/a.ts', `git diff src/${oneName}`],
  ])('%s: %s', (command, pattern) => {
    expect(suggestedPattern(command)).toBe(pattern);
    expect(allows(command, pattern)).toBe(true);
  });

  it.each([
    'cat /etc/passwd',
    'cat /srv/app/src/a.ts',
    'cat .env',
    'cat src/.env',
    'cat .ssh/id_rsa',
    'cat src/.git/config',
    'cat ../x/a.ts',
    'cat src/../x/a.ts',
    'cat ./src/a.ts',
    'cat ~/x/a.ts',
    'cat a.ts',
    'cat src/a.ts ../x',
    'cat ../x src/a.ts',
    'cat .env src/a.ts',
    'cat src/*',
    'cat src/{a,b}',
    'cat src/',
    'cat "src/a b.ts"',
    'cat',
    'git log',
    'git log -5',
    'git show HEAD',
    'printenv',
    'printenv HOME',
    'ls -la ..',
    'ls src',
    'echo x',
  ])('does not exist for the path of %s', (command) => {
    expect(suggestedPattern(command)).toBeUndefined();
  });

  it('allows the other files in the folder, and nothing else', () => {
    const pattern = suggestedPattern('cat src/a.ts') ?? '';
    for (const path of ['src/b.ts', 'src/_x', 'src/A-1.test.ts']) {
      expect(allows(`cat ${path}`, pattern), path).toBe(true);
    }
    for (const path of [
      'src/.env',
      'src/../.env',
      'src/..',
      'src/x/../../.env',
      'src/x/y.ts',
      'src//etc/passwd',
      'src/a.ts .env',
      'src/a.ts /etc/passwd',
      'src/a.ts -x',
      'src/*',
      'src/a*',
      'src/?env',
      'src/{a,.env}',
      'src/a.ts > x',
      'src/a.ts; cat .env',
      'src/$x',
      'srcx/a.ts',
      '-n src/a.ts',
    ]) {
      expect(allows(`cat ${path}`, pattern), path).toBe(false);
    }
  });

  it.each([
    'rm -rf ./tmp/*',
    'sudo ls',
    'env ls',
    'timeout 5 ls',
    'xargs ls',
    'nohup cat x',
    'time ls',
    'bash -c ls',
    'sh x.sh',
    'node build.js',
    'python3 -c "print(1)"',
    'perl -e 1',
    'eval ls',
    'make test',
    'awk 1 x',
    'sed -n 1p x',
    'find . -name x',
    'ls; cat x',
    'ls | wc -l',
    'ls $(pwd)',
    'ls $HOME',
    'ls > x',
    'A=b ls',
    'git push',
    'git -c core.pager=x log',
    'git log --output=x',
    'sort -o x y',
    '/bin/ls',
    './ls',
    '"ls" -l',
    'ls &',
    '',
    'ls "',
    'npm install',
    'unknown-program x',
  ])('%j: none', (command) => {
    expect(suggestedPattern(command)).toBeUndefined();
  });
});
