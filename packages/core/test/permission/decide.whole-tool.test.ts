import { describe, expect, it } from 'vitest';
import { decideCall, type RuleSet } from '../../src/permission/decide.ts';

const bash = (command: unknown) => ({ toolCallId: 'tc-1', name: 'bash', arguments: { command } });
const rule = (command: string) => ({ tool: 'bash', params: { command } });
const ruleSet = (permissions: RuleSet['permissions'], more: Partial<RuleSet> = {}): RuleSet => ({
  permissions,
  usedOnce: [],
  grants: [],
  builtinAllow: false,
  kinds: { command: 'command' },
  ...more,
});
const denylist = ['rm *', 'curl *'].map(rule);
const wholeTool = ruleSet({ allowlist: [{ tool: 'bash' }], denylist });
const on = (command: unknown, rules: RuleSet): string => decideCall(bash(command), rules).decision;

describe('a rule of the whole tool', () => {
  it.each(['anything $(goes)', 'X=1; $X', 'eval "$(cat f)"', 'ls "', '', 'a'.repeat(20_000)])(
    'allows every command if no rule denies any: %#',
    (command) => {
      expect(on(command, ruleSet({ allowlist: [{ tool: 'bash' }] }))).toBe('allow');
      expect(on(command, ruleSet({}, { builtinAllow: true }))).toBe('allow');
      const elsewhere = [
        { tool: 'bash', params: { cwd: '/etc' } },
        { ...rule('x'), tool: 'sh' },
      ];
      expect(on(command, ruleSet({ allowlist: [{ tool: 'bash' }], denylist: elsewhere }))).toBe(
        'allow',
      );
    },
  );

  it.each([
    'npm test',
    'FOO=1 npm test > out.log 2>&1',
    'python scripts/x.py "$HOME"',
    'for f in *.ts; do echo $f; done',
    'if [ -f x ]; then cat x; else touch x; fi',
    '[[ -f x ]] && cat x',
    'echo $((1 + 2))',
    "cat <<'E' > a.txt\nit's\nE\n",
    'ls x # rm y',
    'echo "a; rm x"',
    'git commit -m "rm the old files"',
    'ls x &',
    'find . -name x -delete',
    'sudo -u me ls x',
  ])('allows what deny rules were able to look at: %s', (command) => {
    expect(on(command, wholeTool)).toBe('allow');
    expect(on(command, ruleSet({ denylist }, { builtinAllow: true }))).toBe('allow');
  });

  it.each([
    '$X y',
    '${X}m y',
    '$(which rm) y',
    '`cat f` y',
    '/bin/r? y',
    'r{m,} y',
    'sudo $X y',
    'eval "$X"',
    'echo x | sh',
    'bash script.sh',
    'source f',
    '. f',
    'alias ls="$X"',
    'BASH_CMDS[ls]=/tmp/x; ls y',
    "x='$'; w=$x'(y)'; echo ${w@P}",
    'read x < f; ((x))',
    'test -v $x',
    'unset "$x"',
    "x='a[$'; x+='(rm y)]'; let x",
    'hash -p /tmp/x ls',
    'ls "',
    'ls $(',
    'ls x | | cat y',
    'ls \u00a0x',
    'a'.repeat(10_001),
    '('.repeat(300),
  ])('asks about what they could not: %#', (command) => {
    expect(on(command, wholeTool)).toBe('ask');
    expect(on(command, ruleSet({ denylist }, { builtinAllow: true }))).toBe('ask');
    expect(on(command, ruleSet({ denylist, allowOnce: [{ tool: 'bash' }] }))).toBe('ask');
  });

  it('asks about unknown arguments of a program that a deny rule names', () => {
    const rules = ruleSet({ allowlist: [{ tool: 'bash' }], denylist: [rule('git push*')] });
    expect(on('git log "$BRANCH"', rules)).toBe('ask');
    expect(on('git {push,-f}', rules)).toBe('ask');
    expect(on('ls "$BRANCH"', rules)).toBe('allow');
    expect(on('git log main', rules)).toBe('allow');
    const prefix = ruleSet({ allowlist: [{ tool: 'bash' }], denylist: [rule('rm*')] });
    expect(on('echo "$X"', prefix)).toBe('allow');
    expect(on('r "$X"', prefix)).toBe('ask');
    const anywhere = ruleSet({ allowlist: [{ tool: 'bash' }], denylist: [rule('*secret*')] });
    expect(on('cat "$FILE"', anywhere)).toBe('ask');
    expect(on('cat s*', anywhere)).toBe('ask');
    expect(on('cat file', anywhere)).toBe('allow');
  });

  it('asks if the parameter that a deny rule is about is no text', () => {
    expect(on(['rm', 'x'], wholeTool)).toBe('ask');
    expect(on(null, wholeTool)).toBe('ask');
    expect(decideCall({ toolCallId: 't', name: 'bash', arguments: {} }, wholeTool).decision).toBe(
      'allow',
    );
  });
});
