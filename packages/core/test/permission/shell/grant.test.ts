import { describe, expect, it } from 'vitest';
import { grantsCommand } from '../../../src/permission/shell/grant.ts';
import { spelledLength } from '../../../src/permission/glob/spelled.ts';

const grants = (source: string, ...patterns: string[]): boolean => grantsCommand(source, patterns);

describe('what a pattern spells', () => {
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
  ])('ends in %j before character %i', (pattern, length) => {
    expect(spelledLength(pattern)).toBe(length);
  });
});

describe('a wildcard', () => {
  it('stands for arguments, and not for more of a name', () => {
    expect(grants('ls -la', 'ls*')).toBe(true);
    expect(grants('lsblk -a', 'ls*')).toBe(false);
    expect(grants('grep -r x src', '@(ls|cat|grep) *')).toBe(true);
    expect(grants('rm -rf x', '*')).toBe(true);
    expect(grants('ls a; rm b', '*')).toBe(true);
  });

  it('does not stand for a folder that a program lies in', () => {
    expect(grants('./scripts/check x', './scripts/*')).toBe(true);
    expect(grants('./scripts/../evil x', './scripts/*')).toBe(false);
    expect(grants('./scripts/a/evil x', './scripts/*')).toBe(false);
    expect(grants('lsx/evil', 'ls*')).toBe(false);
    expect(grants('/tmp/evil', '*')).toBe(false);
  });

  it('does not stand for code', () => {
    expect(grants('python x.py', 'python *')).toBe(false);
    expect(grants('python3.11 x.py', 'python*')).toBe(false);
    expect(grants('python manage.py migrate', 'python manage.py *')).toBe(true);
    expect(grants('python manage.pyc migrate', 'python manage.py*')).toBe(false);
    expect(grants('python -c x', 'python -c *')).toBe(false);
    expect(grants('node -e x', '*')).toBe(false);
    expect(grants('bash check.sh a', 'bash check.sh *')).toBe(true);
    expect(grants('/usr/bin/env node x.js', '/usr/bin/env *')).toBe(false);
    expect(grants('eval x', 'eval *')).toBe(false);
    expect(grants('eval echo x', 'eval echo *')).toBe(false);
    expect(grants('awk 1 f', 'awk *')).toBe(false);
    expect(grants('sed -n 1p f', 'sed -n *')).toBe(false);
    expect(grants('source f', 'source *')).toBe(false);
    expect(grants('deno run x.ts', 'deno run *')).toBe(false);
    expect(grants("make test CC='x; y'", 'make test *')).toBe(false);
    expect(grants('sqlite3 db x', 'sqlite3 *')).toBe(false);
    expect(grants('. f', '. *')).toBe(false);
    expect(grants('export PATH', 'export *')).toBe(false);
    expect(grants('trap x EXIT', 'trap *')).toBe(false);
  });

  it('does not stand for an option by which a reader acts', () => {
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
      expect(grants(acting, '*')).toBe(false);
      if (!/[*{]/.test(acting)) expect(grants(acting, acting)).toBe(true);
    }
    for (const reading of [
      'find . -name x',
      'sort -u x',
      'git log -5',
      'rg -n x',
      'git add -- -x',
    ]) {
      expect(grants(reading, '*')).toBe(reading !== 'git add -- -x');
    }
  });

  it('does not stand for what a wrapper runs', () => {
    expect(grants('sudo apt update', 'sudo *')).toBe(false);
    expect(grants('sudo apt update', '*', '* *')).toBe(true);
    expect(grants('sudo apt update', 'sudo apt *')).toBe(true);
    expect(grants('sudo aptitude x', 'sudo apt*')).toBe(false);
    expect(grants('sudo apt update', 'sudo *', 'apt *')).toBe(true);
    expect(grants('timeout 5 ls x', 'timeout *', 'ls *')).toBe(true);
    expect(grants('sudo ls -la x', 'sudo *', 'ls *')).toBe(true);
    expect(grants('timeout 5 rm x', 'timeout *', 'ls *')).toBe(false);
    expect(grants('timeout ls rm x', 'timeout *', 'ls *')).toBe(false);
    expect(grants('timeout 5 sudo nice ls x', 'timeout *', 'sudo *', 'nice *', 'ls *')).toBe(true);
    expect(grants('ls x', 'timeout *')).toBe(false);
    expect(grants('docker ps', 'docker *')).toBe(true);
    expect(grants('docker exec box ls', 'docker *', 'ls*')).toBe(true);
    expect(grants('docker exec box sh', 'docker *', 'sh*')).toBe(false);
    expect(grants('npm test', 'npm *')).toBe(true);
    expect(grants('npm exec evil', 'npm *')).toBe(false);
    expect(grants('env', 'env*')).toBe(true);
  });

  it('does not stand for options and settings of a wrapper', () => {
    expect(grants('sudo -u me ls x', 'sudo *', 'ls *')).toBe(false);
    expect(grants('sudo -u me ls x', 'sudo -u me ls *')).toBe(true);
    expect(grants('env LD_PRELOAD=x ls y', 'env *', 'ls *')).toBe(false);
    expect(grants('env LANG=C ls y', 'env LANG=C ls *')).toBe(true);
    expect(grants('ssh -oProxyCommand=x ls ls', 'ssh *', 'ls*')).toBe(false);
    expect(grants('sudo -s', 'sudo *')).toBe(false);
    expect(grants("env -S'x y'", 'env *')).toBe(false);
    expect(grants('xargs cat', 'xargs *', 'cat*')).toBe(false);
    expect(grants('xargs cat', 'xargs cat*')).toBe(true);
  });

  it('does not reach through a wrapper to code', () => {
    expect(grants('sudo python x.py', 'sudo python *')).toBe(false);
    expect(grants('sudo python x.py a', 'sudo python x.py *')).toBe(true);
    expect(grants('sudo find . -delete', 'sudo find *')).toBe(false);
    expect(grants('timeout 5 eval x', 'timeout 5 eval *')).toBe(false);
    expect(grants('sudo sudo sudo sudo sudo sudo ls', 'sudo *', 'ls*')).toBe(false);
  });
});

describe('a pattern without a wildcard', () => {
  it('grants what it spells, code and options included', () => {
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
      expect(grants(source, source)).toBe(true);
    }
  });

  it('grants no code that comes through a pipe', () => {
    for (const shell of ['bash', 'bash -s', 'python -', 'sudo bash', 'env sh', 'node']) {
      expect(grants(`echo x | ${shell}`, 'echo *', shell)).toBe(false);
    }
  });

  it('grants no structure that is asked on principle', () => {
    for (const source of [
      'ls > f',
      'A=b ls',
      'ls $x',
      'ls $(date)',
      'ls &',
      'if ls; then ls; fi',
      '"ls"',
    ]) {
      expect(grants(source, source)).toBe(false);
    }
  });
});

describe('a star right behind a word', () => {
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
    ['cat READ*', 'cat README.md', true],
    ['ls *', 'ls', false],
    ['*', 'lsof', true],
    ['@(ls|cat)*', 'ls -l', true],
  ])('%s on %j: %s', (pattern, command, granted) => {
    expect(grantsCommand(command, [pattern])).toBe(granted);
  });
});
