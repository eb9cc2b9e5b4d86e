/**
 * Commands that evaluate a value as code. The values are in the environment, so the text shows only the
 * construct. Each one runs in a real bash, which shows that it evaluates; then no pattern may allow it,
 * and no rule for the whole tool beside a deny rule about something else.
 */
import { spawnSync } from 'node:child_process';
import { chmodSync, existsSync, mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import fc from 'fast-check';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { requires } from '../../../../test/support/requires.ts';
import { decideCall, type RuleSet } from '../../src/permission/decide.ts';
import { readAnsiQuoted } from '../../src/permission/shell/words.ts';

const BASH = '/bin/bash';
const noBash = existsSync(BASH) ? undefined : 'bash is not installed';

const rule = (command: string) => ({ tool: 'bash', params: { command } });
const ruleSet = (permissions: RuleSet['permissions'], more: Partial<RuleSet> = {}): RuleSet => ({
  permissions,
  usedOnce: [],
  grants: [],
  builtinAllow: false,
  kinds: { command: 'command' },
  ...more,
});
const on = (command: string, rules: RuleSet): string =>
  decideCall({ toolCallId: 'tc-1', name: 'bash', arguments: { command } }, rules).decision;

const wholeTool = [{ tool: 'bash' }];
const patterns = ruleSet({
  allowlist: [
    '*',
    '**',
    ...'echo test printf read wait unset cat set : [ [[ export python node awk sed true'
      .split(' ')
      .map((name) => `${name} *`),
  ].map(rule),
});
const besideDeny = ruleSet({ allowlist: wholeTool, denylist: [rule('rm *')] });
const besideAsk = ruleSet({ allowlist: wholeTool, ask: [rule('rm *')] });
const besidePolicy = ruleSet(
  { allowlist: wholeTool },
  { policies: [{ id: 'p', allow: [], deny: [], ask: [rule('rm *')], approvers: [] }] },
);
const alone = ruleSet({ allowlist: wholeTool });

let folder = '';

/** `x` is a subscript, `p` a prompt, `c` a command, `o` an option. */
function executes(command: string): boolean {
  const mark = join(folder, 'mark');
  rmSync(mark, { force: true });
  const values = {
    x: 'a[$(run)]',
    n: 'b[x]',
    p: '$(run)',
    c: 'run',
    o: '-v',
    s: '-v a[$(run)]',
    f: '-exec run ;',
  };
  spawnSync(BASH, ['-c', command], {
    cwd: join(folder, 'cwd'),
    env: { PATH: `${join(folder, 'bin')}:/usr/bin:/bin`, MARK: mark, ...values },
    stdio: ['ignore', 'ignore', 'ignore'],
    timeout: 10_000,
    killSignal: 'SIGKILL',
  });
  return existsSync(mark);
}

const evaluating = [
  '((x))',
  '(( x + 1 ))',
  '((y=x))',
  'echo $((x))',
  'echo $(( 1 + x ))',
  'echo "$((x))"',
  'echo $((1+(x)))',
  'echo $[x]',
  'echo "$[x]"',
  '$\\\n((x))',
  'echo $\\\n[x]',
  '(\\\n(x))',
  'let x',
  'let "$x"',
  'builtin let x',
  'command let x',
  'b[x]=1',
  'b[$x]=1',
  'b["$x"]=1',
  'b[1+x]=1',
  'b[x]+=1',
  'b\\\n[x]=1',
  'b[0]=1 b[x]=1',
  'b=([x]=1)',
  'b=([$x]=1)',
  'b+=([x]=1)',
  'b=(1 [x]=1)',
  'b=([1 + x]=1)',
  'echo ${b[x]}',
  'echo "${b[x]}"',
  'echo ${b[$x]}',
  'echo ${b:-${b[x]}}',
  'echo ${b[x]:-y}',
  ': ${b[x]:=1}',
  ': ${b[x]=1}',
  'b=(1); echo ${b[-x]}',
  'echo ${x:x}',
  'echo ${x:0:x}',
  'echo ${x:$x}',
  'echo ${x::x}',
  'echo ${x:1+x}',
  'echo ${@:x}',
  'echo "${*:x:1}"',
  'b=(1 2); echo "${b[@]:x}"',
  'echo ${!x}',
  'echo ${!x-}',
  'echo "${!n}"',
  'echo ${!b[x]}',
  'echo ${p@P}',
  'echo "${x@P}${p@P}"',
  'echo ${\\\np@P}',
  'cat <<E\n${b[x]}\nE',
  'cat <<E\n$((x))\nE',
  'cat <<< $((x))',
  'declare -i b=x',
  'declare -i b; b=$x',
  'typeset -i b=$x',
  'declare "$x=1"',
  'declare -n r=$x; echo $r',
  'f() { local -i b=$x; }; f',
  'f() { local b[x]=1; }; f',
  'f() { local -n r=$x; echo $r; }; f',
  '[[ x -eq 1 ]]',
  '[[ $x -eq 1 ]]',
  '[[ 1 -lt x ]]',
  '[[ -n a && $x -ge 1 ]]',
  '[[ -n a && ( x -ne 1 || -n b ) ]]',
  '[[ ! x -gt 1 ]]',
  'if [[ "$x" -le 1 ]]; then :; fi',
  '[[ -v $x ]]',
  '[[ -v b[x] ]]',
  'test -v "$x"',
  "test -v 'b[x]'",
  '[ -v "$x" ]',
  "[ -v 'b[x]' ]",
  'test ! -v "$x"',
  'test 1 -a -v "$x"',
  '[ -n a -a -v "$x" ]',
  '[ "$o" "$x" ]',
  'test $o "$x"',
  'test "$o" \'b[x]\'',
  'set -- -v "$x"; [ "$@" ]',
  'printf -v "$x" 1',
  "printf -v 'b[x]' 1",
  'printf "$o" "$x" 1',
  'printf "-v$x" 1',
  'read "$x" <<< 1',
  "read 'b[x]' <<< 1",
  'declare -A m; unset "m[$x]"',
  'true & wait -n -p "$x"',
  "true & wait -p 'b[x]' $!",
  'for ((i=x;i<1;i++)); do :; done',
  'for RANDOM in "$x"; do :; done',
  'for SECONDS in "$x"; do :; done',
  'RANDOM=$x',
  'OPTIND=$x',
  'HISTCMD=$x',
  'SRANDOM=$x',
  'DIRSTACK[x]=1',
  'read RANDOM <<< "$x"',
  'exec {b[x]}>/dev/null',
  ': {b[$x]}>/dev/null',
  "mapfile -C 'run' -c 1 b <<< 1",
  'trap "$c" EXIT',
  'trap -- "$c" DEBUG; :',
  'eval "$c"',
  'eval $c',
  'builtin eval "$c"',
  '$c',
  '"$c"',
  'exec $c',
  'command $c',
  'env $c',
  'env "$c"',
  'nice $c',
  'xargs $c < /dev/null',
  'echo run | xargs env',
  'echo run | xargs -n 1 nice',
  'echo run | xargs timeout 5',
  'echo run | xargs nice -n 5',
  'timeout 5 "$c"',
  'find . -maxdepth 0 $f',
  'PS4=$p; set -x; :',
  "PS4='$p'; PS4=${PS4/p/p}; PS4=$p; set -x; :",
  'export PS4=$p; set -x; :',
  'printf -v PS4 %s "$p"; set -x; :',
  'read PS4 <<< "$p"; set -x; :',
  'for PS4 in "$p"; do set -x; :; done',
  'unset PS4; : ${PS4:=$p}; set -x; :',
  'unset PS4; : "${PS4=$p}"; set -x; :',
  'readonly PS4=$p; set -x; :',
  'f() { local PS4=$p; set -x; :; }; f',
  'echo "$c" > f; BASH_ENV=f /bin/bash -c :',
  'compgen -W "$p"',
  'compgen -C "$c"',
  'alias q="$c"; shopt -s expand_aliases\nq',
  'set -o history -o histexpand\ntrue run a\n!!:1',
  'set -o history; set -H\ntrue run a\n!!:1',
  'echo "$c" | sh',
  'sh <<< "$c"',
  'sh -c "$c"',
  'bash <<E\n$c\nE',
  'echo "$c" > g; . ./g',
  'echo "$c" > g; source ./g',
  'x86_64 "$c"',
  'x86_64 $c y',
  'x86_64 env "$c"',
  'find . { -maxdepth 0 $f',
  'x86_64 "${c}"',
  'y=ru; x86_64 "${y}n"',
  'y=n; x86_64 ru"$y"',
  'echo run | xargs x86_64',
  'x86_64 sh -c "$c"',
  'echo "$c" | x86_64 sh',
  'setarch x86_64 "$c"',
  'awk \'BEGIN { system("run") }\'',
  'awk \'BEGIN { print "run" | "sh" }\'',
  'awk \'BEGIN { "run" | getline }\'',
  'awk "BEGIN { system(\\"$c\\") }"',
  'echo 1 | sed "s/1/run/e"',
  "echo 1 | sed '1e run'",
  "echo 1 | sed -n -e p -e 's/1/run/e'",
  'perl -e \'system("run")\'',
  'echo \'system("run")\' | perl',
  'perl -e "$(echo c3lzdGVtKCdydW4nKQ== | base64 -d)"',
  'mkdir -p 10; printf "#!/bin/sh\\n/usr/bin/touch \\$MARK\\n" > 10/ls; chmod +x 10/ls; exec {PATH}>/dev/null; ls',
  'mkdir -p e; printf "#!/bin/sh\\n/usr/bin/touch \\$MARK\\n" > e/ls; chmod +x e/ls; PATH=e; ls',
  'mkdir -p e; printf "#!/bin/sh\\n/usr/bin/touch \\$MARK\\n" > e/ls; chmod +x e/ls; env PATH=e ls',
  'mkdir -p e; printf "#!/bin/sh\\n/usr/bin/touch \\$MARK\\n" > e/ls; chmod +x e/ls; read PATH <<< e; ls',
  'mkdir -p e; printf "#!/bin/sh\\n/usr/bin/touch \\$MARK\\n" > e/ls; chmod +x e/ls; getopts a: PATH -a e; OPTARG=e; PATH=$OPTARG; ls',
  'env "BASH_FUNC_ls%%=() { run; }" bash -c ls',
];

const ordinary = [
  'echo $((1+1))',
  'echo $(( (1 + 2) * 3 ))',
  'echo "$[ 2 * 2 ]"',
  '((1)) && echo a',
  'for f in *.ts; do echo "$f"; done',
  '[[ -f y ]] && cat y',
  '[[ $x == y* ]] && echo a',
  '[[ -n $x && -f y ]]',
  '[[ $# -gt 0 ]]',
  '[[ 1 -eq 1 ]]',
  '[[ -v y ]]',
  '[ "$x" = y ]',
  '[ "$x" = y -o "$x" = z ]',
  '[ $? -eq 0 ] && echo a',
  '[ $# -eq 0 ]',
  'test -n "$x"',
  'if [ ! -d "$d" ]; then mkdir "$d"; fi',
  'echo ${x:-default}',
  'echo "${x:?missing}" ${x:+y} ${x-z}',
  'echo ${#x} ${#arr[@]}',
  'echo "${arr[@]}" "${arr[*]}" ${arr[0]} "${arr[-1]}"',
  'echo "${!arr[@]}"',
  'echo ${x#a} ${x##*/} ${x%.*} ${x%%b} ${x/a/b} ${x//a/b} ${x^^} ${x,}',
  'echo ${x:1} ${x:1:2} ${x: -1} ${x::3} ${@:2}',
  'echo ${x@Q}',
  ': ${y:=z}',
  'a[0]=1',
  'x=1; y=$x; echo "$y"',
  'FOO=bar npm test',
  'NODE_ENV=test npm test',
  'LC_ALL=C sort f',
  'LANG=en_US.UTF-8 sort f',
  'export FOO=bar',
  'export FOO',
  'unset y',
  'read -r line < f',
  'read y z <<< "1 2"',
  'printf \'%s\\n\' "$x"',
  "printf -v y '%s' 1",
  'set -e',
  'set -euo pipefail',
  'set -- a b',
  'shopt -s nullglob',
  'python scripts/x.py "$HOME"',
  'python3 -m pytest -q',
  'python3 -u x.py',
  'node build.js --watch',
  'node --test',
  'node --version',
  "awk '{print $1}' f",
  "awk -F: '$3 > 1000 {print $1}' f",
  "sed -n '1,5p' f",
  "sed -i 's/a/b/g' f",
  "sed -E -e 's#a/b#c#' -e '/x/d' f",
  'make test',
  'bun test',
  'deno test',
  'find . -name "$x"',
  'find src -type f -newer y',
  'ls -lt src',
  "git commit -m 'fix ((x)) and ${a[x]}'",
  'sleep 0 & jobs',
  'if true; then { echo a; }; fi',
  '{ echo a; } && { echo b; }',
  'time { echo a; }',
  'foo build "$x"',
  'foo --out="$x" y',
  'curl -s "$URL" | jq .',
  'for f in *.ts; do prettier --check "$f"; done',
  'tsc *.ts',
];

describe('a command that evaluates a value as code', requires('shell', noBash), () => {
  beforeAll(() => {
    folder = mkdtempSync(join(tmpdir(), 'relay-opaque-'));
    for (const name of ['bin', 'cwd']) mkdirSync(join(folder, name));
    const stub = (name: string, text: string) => {
      writeFileSync(join(folder, 'bin', name), `#!/bin/sh\n${text}\n`);
      chmodSync(join(folder, 'bin', name), 0o755);
    };
    stub('run', ': > "$MARK"');
    stub('x86_64', 'exec "$@"');
  });
  afterAll(() => rmSync(folder, { recursive: true, force: true }));

  it.each(evaluating)('is asked about: %s', (command) => {
    expect(executes(command)).toBe(true);
    expect(on(command, patterns)).toBe('ask');
    expect(on(command, ruleSet({ allowlist: [rule(command)] }))).toBe('ask');
    for (const rules of [besideDeny, besideAsk, besidePolicy])
      expect(on(command, rules)).toBe('ask');
    expect(on(command, alone)).toBe('allow');
    const exact = { id: 'g', tool: 'bash', exact: { command } };
    expect(on(command, { ...besideDeny, grants: [exact] })).toBe('allow');
  });

  it.each(ordinary)('is not this: %s', (command) => {
    expect(executes(command)).toBe(false);
    expect(on(command, besideDeny)).toBe('allow');
  });

  it('is denied in a headless run', () => {
    const permissions = { allowlist: wholeTool, denylist: [rule('rm *')], headless: true };
    expect(on('echo $((x))', ruleSet(permissions))).toBe('deny');
    expect(on('echo $((1))', ruleSet(permissions))).toBe('allow');
  });
});

describe("text in $'…'", requires('shell', noBash), () => {
  const decode = (content: string): string => readAnsiQuoted(`${content}'`, 0).text;
  const inBash = (contents: readonly string[]): string[] => {
    const script = contents.map((content) => `printf '%s\\0' $'${content}'`).join('\n');
    const env = { LC_ALL: 'C.UTF-8' };
    const { stdout } = spawnSync(BASH, { input: script, env, maxBuffer: 1 << 26 });
    return stdout.toString('utf8').split('\0').slice(0, -1);
  };

  it.each([
    ['\\562m', 'rm'],
    ['\\162m', 'rm'],
    ['\\x{172}m', 'rm'],
    ['\\x72m', 'rm'],
    ['\\u72m', 'rm'],
    ['\\U00000072m', 'rm'],
    ['rm\\0x', 'rm'],
    ['rm\\400x', 'rm'],
    ['rm\\x{100}x', 'rm'],
    ['rm\\c@x', 'rm'],
    ['rm\\u0x', 'rm'],
    ['\\c', '\\c'],
    ['\\q', '\\q'],
    ['\\xg', '\\xg'],
  ])('is decoded: %s', (content, expected) => {
    expect(decode(content)).toBe(expected);
    expect(inBash([content])).toEqual([expected]);
  });

  it('is what bash makes of it', () => {
    const piece = fc.constantFrom(
      ...'abcrmxuUqe0178fFg{}?"@[ é😀\n'.split(/(?:)/u),
      '\\',
      '\\',
      '\\\\',
      '\\x',
      '\\x{',
      '\\u',
      '\\U',
      '\\c',
      '\\0',
      '\\5',
      "\\'",
      '\\n',
      '\\e',
    );
    const content = fc
      .array(piece, { maxLength: 12 })
      .map((pieces) => pieces.join(''))
      .filter((text) => /^(?:[^\\']|\\[^])*$/.test(text));
    fc.assert(
      fc.property(fc.array(content, { minLength: 200, maxLength: 200 }), (contents) => {
        expect(contents.map(decode)).toEqual(inBash(contents));
      }),
      { numRuns: 10 },
    );
  });
});
