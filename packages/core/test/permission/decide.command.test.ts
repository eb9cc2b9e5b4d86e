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
const cases = ruleSet({
  allowlist: ['ls *', 'cat *', 'echo *', 'git log*'].map(rule),
  denylist,
});
const wholeTool = ruleSet({ allowlist: [{ tool: 'bash' }], denylist });
const on = (command: unknown, rules = cases): string => decideCall(bash(command), rules).decision;

describe('a command under patterns', () => {
  it.each([
    'ls -la',
    'ls -la | cat -n',
    'ls x && echo done || echo failed',
    'git log --oneline -5 | cat -',
    'ls a; cat b;',
    'ls x 2>&1 | cat -',
    'ls x >/dev/null 2>/dev/null </dev/null',
    'ls x &>/dev/null',
    'cat "a b" \'c d\' e\\ f',
    'ls *.ts [ab]?',
    'echo "done: $?"',
    'echo "a; rm x" \'; curl y\'',
    'echo rm x',
    'echo Grüße 世界',
    'git log --author="it is me"',
  ])('is allowed if each of its commands is covered: %s', (command) => {
    expect(on(command)).toBe('allow');
  });

  // Case 11.
  it.each([
    'ls; rm x',
    'ls && rm x',
    'ls | rm x',
    'ls\nrm x',
    'ls & rm x',
    'ls || rm x',
    'ls |& rm x',
  ])('is denied if a denied one is in the list: %j', (command) => {
    expect(on(command)).toBe('deny');
  });

  it.each([
    'ls $(rm x)',
    'ls `rm x`',
    'cat <(rm x)',
    'echo hi >(rm x)',
    'ls "$(rm x)"',
    'ls "a `rm x` b"',
    'ls "$(echo "$(rm x)")"',
    'echo ${x:-$(rm x)}',
    'echo $((1 + $(rm x)))',
    'ls $(\nrm x)',
  ])('is not allowed if a denied one hides in it: %j', (command) => {
    expect(on(command)).toBe('deny');
  });

  // Case 12.
  it.each([
    '/bin/rm x',
    '"rm" x',
    "'rm' x",
    '\\rm x',
    "r''m x",
    'r""m x',
    'env rm x',
    'env -i A=b rm x',
    'env -S "rm x"',
    "env -S'rm x'",
    'sudo rm x',
    'sudo -u root rm x',
    'timeout 1 rm x',
    'timeout -k 5 10 rm x',
    'timeout "$T" rm x',
    'xargs rm',
    'ls x | xargs -n 1 rm',
    'xargs -I {} rm {}',
    'nice -n 5 rm x',
    'nohup rm x',
    'stdbuf -oL rm x',
    'command rm x',
    'exec -a ls rm x',
    'time -p rm x',
    'sudo env A=1 timeout 5 nice rm x',
    'busybox rm x',
    'ssh host rm x',
    "ssh host 'ls; rm x'",
    'docker exec box rm x',
    'npm exec rm x',
  ])('is denied behind quotes, folders and wrappers: %s', (command) => {
    expect(on(command)).toBe('deny');
    expect(on(command, wholeTool)).toBe('deny');
  });

  it.each([
    'A=b rm x',
    'a[1 + 2]=3 rm x',
    'a=(1 2) rm x',
    '>f rm x',
    '2>&1 rm x',
    '<<<x rm y',
    'if ls; then rm x; fi',
    'if ls; then cat a; else rm x; fi',
    'while rm x; do ls; done',
    'for i in a; do rm x; done',
    'for i do rm x; done',
    'f() { rm x; }; f',
    'function f { rm x; }',
    '{ rm x; }',
    '(rm x)',
    '((1)); rm x',
    '! rm x',
    'coproc rm x',
    'case a in a) rm x;; esac',
    'cat <<E\n$(rm x)\nE',
    "cat <<E\n'\nE\nrm x\ncat <<E\n'\nE",
    "ls # it's\nrm x #'",
    'ls #\\\nrm x',
    "echo ${x#'} ; rm x #'",
    '(( x = 5 # )); rm y',
    'r\\\nm x',
    'echo "$\\\n(rm x)"',
    "$'rm' x",
    "$'\\x72\\155' x",
    "$'a\\'; rm x #'",
    'r$@m x',
    'r${x}m x',
    '$x rm y',
    'rm$IFS-rf$IFS/',
    '{rm,-rf,/}',
    'bash -c "ls; rm x"',
    "sudo bash -c 'rm'",
    'sh -c \'sh -c "rm x"\'',
    'eval rm x',
    "eval 'ls;' rm x",
    "trap 'rm x' EXIT",
    'find . -exec rm {} \\;',
    'find . -name "*.ts" -ok rm {} +',
    "test -v 'a[$(rm x)]'",
    'let "a[\\$(rm x)]=1"',
    'let "a[\\$${x}(rm x)]=1"',
    'echo ${x:-<(rm x)}',
    '"$x"{rm,x}',
    'r\0m x',
    'ls\r\nrm x',
    'ls\u00a0#; rm x',
    'ls\u2028#; rm x',
    'RM x',
    '/b*/rm x',
    'hash -p /bin/rm ls',
    `ls ${'a'.repeat(20_000)}; rm x`,
    `${'ls;'.repeat(50_000)}rm x`,
    `${'('.repeat(50_000)}rm x`,
    `${'"$('.repeat(50_000)}rm x`,
  ])('is denied wherever the shell finds it: %#', (command) => {
    expect(on(command)).toBe('deny');
    expect(on(command, wholeTool)).toBe('deny');
  });

  // Case 13, and what else is asked on principle.
  it.each([
    'echo hi > f',
    'echo hi >> f',
    'echo hi >| f',
    'echo hi >&f',
    'ls &> f',
    'cat < f',
    'cat <> f',
    'ls {fd}>/dev/null',
    'cat << E\nx\nE',
    'cat <<< x',
    'A=b ls x',
    'PATH=/tmp ls x',
    'ls x; A=b',
    'echo x | sh',
    'echo x | python -',
    'ls x | awk 1',
    'cat x | sed -i s/a/b/ f',
    'ls x; find . -delete',
    'git log --output=f',
    'git log --outp=f',
    'git log --ext-diff',
    'ls x &',
    'ls a & cat b',
    'echo $HOME',
    'echo "$SECRET"',
    'echo ${x}',
    'echo ${x@P}',
    'echo $((1+2))',
    'echo $[1+2]',
    'ls $(date)',
    'ls `date`',
    'cat <(ls x)',
    "echo '$(date)'",
    'echo {a,b}',
    'echo {1..9}',
    'cat ~/x',
    'cat ~root/x',
    "ls $'a'",
    'ls $"a"',
    'echo !!',
    'echo !ls',
    'ls x # a remark',
    'ls @(a|b)',
    'time ls x',
    'if ls x; then cat y; fi',
    'for i in a; do ls x; done',
    '[[ a == a ]] && ls x',
    'ls() { cat x; }; ls x',
    'coproc ls x',
    'ls x\\\n y',
    'ls\tx',
    '"ls" x',
    'l\\s x',
    'lsof x',
  ])('is asked if it does more than run what is covered: %j', (command) => {
    expect(on(command)).toBe('ask');
  });

  // Case 14.
  it.each([
    '',
    ' ',
    '\n',
    '#',
    ';',
    'ls "',
    "ls '",
    'ls $(',
    'ls (',
    'ls )',
    'ls x |',
    'ls x &&',
    'ls x ;; cat y',
    'ls <',
    'ls x\r',
    'ls\rx',
    'ls \0x',
    'ls \u00a0x',
    'ls \u2028x',
    'ls \u200bx',
    'ls \u202ex',
    'ls \ufeffx',
    'ls \x1b[2Jx',
    'ls \ud800',
    `ls ${'a'.repeat(10_000)}`,
    `ls ${'('.repeat(300)}`,
    `ls ${'{'.repeat(5_000)}`,
    `ls '${'['.repeat(300)}'`,
  ])('is asked if it cannot be read for certain: %#', (command) => {
    expect(on(command)).toBe('ask');
  });

  it('is asked if it is longer than ten thousand characters', () => {
    expect(on(`ls ${'a'.repeat(9_997)}`)).toBe('allow');
    expect(on(`ls ${'a'.repeat(9_998)}`)).toBe('ask');
  });

  // Case 16.
  it.each([[['ls', '-la']], [{ 0: 'ls' }], [null], [undefined]])(
    'never matches if it is not a scalar: %j',
    (command) => {
      expect(on(command)).toBe('ask');
    },
  );

  it('is never matched through an inherited property', () => {
    const inherited = Object.create({ command: 'ls -la' }) as Record<string, unknown>;
    expect(decideCall({ toolCallId: 'tc-1', name: 'bash', arguments: inherited }, cases)).toEqual({
      decision: 'ask',
    });
  });
});
