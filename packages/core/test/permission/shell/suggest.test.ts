import { describe, expect, it } from 'vitest';
import { suggestedPattern } from '../../../src/permission/shell/suggest.ts';

describe('the rule to propose for a command', () => {
  it.each([
    ['ls', 'ls*'],
    ['ls -la src', 'ls*'],
    ['git log --oneline -5', 'git log*'],
    ['git status', 'git status*'],
    ["grep -rn 'to do' src", 'grep*'],
    ['cat "a b.txt"', 'cat*'],
  ])('%s: %s', (command, pattern) => {
    expect(suggestedPattern(command)).toBe(pattern);
  });

  // Case 18.
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
