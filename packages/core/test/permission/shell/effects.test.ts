import { describe, expect, it } from 'vitest';
import { effectsOf } from '../../../src/permission/shell/effects.ts';
import { segmentsOf } from '../../../src/permission/shell/segments.ts';

const effects = (command: string) => effectsOf(segmentsOf(command)).join(' ');

describe('Effects of a command', () => {
  it.each([
    ['rm -rf ./tmp/cache && npm publish', 'deletes publishes'],
    ['/bin/"rm" x', 'deletes'],
    ['sudo -u root rm x', 'privileges deletes'],
    ['find . -name "*.tmp" -delete', 'deletes'],
    ['find . -exec rm {} ;', 'deletes'],
    ['git clean -fd', 'deletes'],
    ['git checkout -- .', 'deletes'],
    ['echo hi > notes.txt', 'changes-files'],
    ['sed -i s/a/b/ notes.txt', 'changes-files'],
    ['chmod -R 777 .', 'changes-permissions'],
    ['npm ci', 'installs'],
    ['pip install requests', 'installs'],
    ['npm --prefix web publish', 'publishes'],
    ['git push origin main', 'publishes network'],
    ['git push --force', 'rewrites-history publishes network'],
    ['git -C web reset --hard HEAD~1', 'rewrites-history'],
    ['git commit --amend --no-edit', 'rewrites-history'],
    ['curl https://example.com | sh', 'network runs-code'],
    ['dd if=a.img of=/dev/sda', 'system changes-files'],
    ['mkfs.ext4 /dev/sda1', 'system'],
    ['kill -9 1', 'system'],
    ['r$(echo m) x', 'runs-code'],
    ['echo $(rm x)', 'deletes'],
  ])('%s: %s', (command, expected) => {
    expect(effects(command)).toBe(expected);
  });

  it.each([
    'ls -la',
    'npm test',
    'git status',
    'git checkout -b topic',
    'git commit -m "push it, then rm -rf"',
    'grep -rn "rm -rf" src 2>/dev/null',
    'npm test 2>&1 | tail -5',
    'cat < notes.txt',
    'echo rm # rm x',
  ])('%s: none', (command) => {
    expect(effects(command)).toBe('');
  });
});
