import { describe, expect, it } from 'vitest';
import { deniesCommand, readCommands } from '../../../src/permission/shell/deny.ts';

const textsOf = (source: string): string[] => [...readCommands(source).texts];
const denies = (pattern: string, source: string): boolean =>
  deniesCommand(pattern, readCommands(source));

const nested = (front: string, levels: number): string =>
  levels === 0 ? 'ls' : `${front} '${nested(front, levels - 1).replaceAll("'", String.raw`'\''`)}'`;

describe('the commands of a text', () => {
  it.each([
    ['ls  -la', ['ls -la']],
    ['/usr/bin/LS x', ['/usr/bin/LS x', 'LS x', 'ls x']],
    ['"ls" \'a b\'', ['ls a b', '"ls" \'a b\'']],
    ['A=b then ls', ['ls', 'A=b then ls']],
    ['sudo ls', ['sudo ls', 'ls']],
    ['$x ls', ['ls', '$x ls']],
    ['ls$x', ['ls', 'ls$x']],
    ['{ls,a}', ['{ls,a}', 'ls a']],
    ['for i in a; do ls; done', ['for i in a', 'ls', 'do ls', 'done']],
  ])('of %j include all expected texts', (source, expected) => {
    expect(textsOf(source)).toEqual(expect.arrayContaining(expected));
  });

  it('can each be denied', () => {
    const source = 'sudo -u me nice -n 5 git push "--force" origin | tee out';
    for (const pattern of ['sudo *', 'nice *', 'git push --force*', 'git *', 'tee *', 'tee']) {
      expect(denies(pattern, source)).toBe(!pattern.endsWith('tee'));
    }
    expect(denies('git pull*', source)).toBe(false);
    expect(denies('push *', source)).toBe(false);
  });

  it('are matched without arguments, too, and with the quotes of a rule', () => {
    expect(denies('rm *', 'xargs rm')).toBe(true);
    expect(denies('rm -r *', 'xargs rm -r')).toBe(true);
    expect(denies('rm', 'rm x')).toBe(false);
    expect(denies('git commit -m "wip"*', 'ls; git commit -m "wip" x')).toBe(true);
    expect(denies('/bin/rm *', 'ls; /bin/rm x')).toBe(true);
  });

  it('are not searched for where they are only mentioned', () => {
    for (const source of [
      'echo rm x',
      'echo "a; rm x"',
      "git commit -m 'a\nrm x'",
      'ls # rm x',
      'grep -r "rm x" .',
      'which rm',
      'npm install rm x',
      'docker rm x',
    ]) {
      expect(denies('rm *', source)).toBe(false);
    }
  });

  it('include those in text that another shell would run', () => {
    for (const source of [
      'bash -c "rm x"',
      'bash -lc "cd a && rm x"',
      'timeout 5 sh -c \'for i in a; do rm "$i"; done\'',
      'su me -c "rm x"',
      'watch "rm x"',
      'xargs -I{} sh -c "rm {}"',
      'eval "$(echo rm x)" "; rm y"',
      'flock f -c "rm x"',
      'env --split-string="rm x"',
    ]) {
      expect(denies('rm *', source)).toBe(true);
    }
  });

  it('are all denied if there are too many', () => {
    for (const source of [
      'sudo '.repeat(5_000),
      'env -a '.repeat(5_000),
      'eval '.repeat(100),
      nested('bash -c', 6),
    ]) {
      const reading = readCommands(source);
      expect(reading.excessive).toBe(true);
      expect(deniesCommand('anything', reading)).toBe(true);
    }
  });

  it('are not too many in a long script or a long list of files', () => {
    const line = 'some words of a longer line; it is prose, and $x is in it\n';
    for (const source of [
      `cat <<E > notes.md\n${line.repeat(5_000)}E\n`,
      `sudo -u me tar cf x.tar ${'folder/file.ts '.repeat(20_000)}`,
      'ls;'.repeat(100_000),
      `echo '${line.repeat(5_000)}'`,
    ]) {
      const reading = readCommands(source);
      expect(reading.excessive).toBe(false);
      expect(deniesCommand('rm *', reading)).toBe(false);
    }
  });
});
