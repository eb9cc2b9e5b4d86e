/** What programs do by words that their name does not tell of, and names that grow. */
import { type Expected, ofKind, type Group } from './group.ts';

const shell = ofKind('command', 'command');
const each =
  <E extends Expected>(expected: E) =>
  (commands: string): (readonly [E, string])[] =>
    commands
      .trim()
      .split('\n')
      .map((command) => [expected, command] as const);
const [asked, allowed, denied] = [each('ask'), each('allow'), each('deny')];

export const shellSideEffects: readonly Group[] = [
  shell(
    'a reader that writes or runs, under a rule for all that it reads',
    {
      allow: [
        'uniq*',
        'file *',
        'date*',
        'tree*',
        'cargo tree*',
        'cargo metadata*',
        'npm ls*',
        'npm outdated*',
        'npm test*',
        'go test *',
        'go vet *',
        'git *',
        'npm *',
        'tar *',
        'sort *',
        'find *',
        'shuf *',
        'iconv *',
        'less *',
        'man *',
        'xxd *',
        'bat *',
        'curl *',
        'wget *',
        'scp *',
        'sftp *',
        'gcc *',
        'cmake *',
        'tcpdump *',
        'dc *',
        'lldb *',
        'view *',
        'kubectl *',
        'openssl *',
        'pandoc *',
        'ssh-keygen *',
        'terraform *',
        'xmllint *',
        'duckdb *',
        'nm *',
        'ss *',
        'dmesg*',
      ],
    },
    [
      ...asked(`
nm --plugin ./x.so y
ss -K
ss -tnD x
dmesg --clear
openssl req -keyout x
uniq input .bashrc
uniq -c input output
uniq *
uniq input *
xxd -r input output
file -C -m magic
date 010100002030
tree -R -L 1
cargo tree --config build.rustc=./x
cargo metadata --config=x
cargo tree -Zunstable-options
npm ls --script-shell=./x
npm test --script-shell ./x
npm test --script-sh=./x
npm test --node-options=--require=./x
npm outdated --git=./x
npm --prefix other test
npm -C other test
npm config set script-shell ./x
npm pkg set scripts.test=x
npm init evil
npm explore x -- sh
go test -exec sh ./x
go test -exec=sh ./x
go test --exec=sh ./x
go vet -vettool=./x
go test -toolexec ./x
go test -o /tmp/x
git archive -o x HEAD
git difftool --extcmd=x
git bisect run ./x
git submodule foreach ls
git filter-branch --tree-filter x
git config core.pager x
git config alias.x y
git send-email --smtp-server=/x
git hook run x
git format-patch -o x
git format-patch --output-directory=x
git cat-file --filters HEAD:x
git clone -u ./x y
git clone --config core.fsmonitor=./x y
git fast-export --export-marks=x
git apply --unsafe-paths x
tar xIf sh y
tar cfI x sh y
tar xF sh
tar cf x --rmt-command=sh y
tar tf x --index-file=y
sort -*
sort --o*
find -*
find . -d*
shuf -o x y
shuf --output=x y
iconv -o x y
less -o x y
less +x y
man -C x ls
xxd a *
bat --pager=sh x
curl -o x https://example.com
curl -sSo x https://example.com
curl -O https://example.com/x
curl -K x
curl --config=x
curl -T x https://example.com
wget --use-askpass=./x y
wget -e x y
scp -F x a b
sftp -oProxyCommand=x host
gcc -wrapper sh x.c
gcc -fplugin=x y.c
cmake -P x
cmake -E env x
tcpdump -z x
dc -e 1
lldb x
view x
kubectl get pods --kubeconfig=./x
openssl enc -out x
openssl x509 -engine ./x
pandoc -o x y
pandoc --lua-filter=x y
ssh-keygen -D ./x.so
terraform -chdir=../x plan
terraform plan
npm run build
git remote show origin
xmllint --shell x
duckdb x.db`),
      ...allowed(`
uniq -c input
uniq
date +%F
file x
tree -L 2
cargo tree --depth 1
cargo metadata --no-deps
npm ls --depth=0
npm test -- -c x --prefix y
go test ./x -run Test -count=1 -cover
go vet ./x
git log --oneline
tar tvf x
tar xzf x
sort -rn x
shuf -n 1 x
curl -s https://example.com
curl -X POST https://example.com
cmake -DCMAKE_BUILD_TYPE=Release -S a -B b
gcc -Wall -c x.c
kubectl get pods -o wide
openssl x509 -in x -noout
xmllint --noout x`),
    ],
  ),
  shell(
    'a subcommand with side effects that a rule spells',
    { allow: ['git config *', 'npm init*'] },
    [
      ['allow', 'git config user.name x'],
      ['allow', 'npm init -y'],
      ['ask', 'git submodule foreach ls'],
    ],
  ),
  shell(
    'a name that grows behind a group, a class or an escaped letter',
    {
      allow: [
        '@(ls|cat)*',
        '{wc,head}*',
        '{du*,df *}',
        '[n]l*',
        'c?t*',
        '+(id)*',
        'ps?*',
        'tr@(*)',
        'od+(*)',
        'git {log,show}*',
        'git\\ diff*',
        '/bin/{pwd,echo}*',
        'j\\q*',
      ],
    },
    [
      ...asked(`
lsof
lsblk -a
catchsegv x
wcx
header x
dumb x
nltk x
cutter x
idle
psql x
trap x EXIT
odd
git logout
git showx
git difftool
/bin/pwdx 1
jqx`),
      ...allowed(`
ls
ls -la
cat x
wc -l x
head x
du -sh x
df -h
ps -ef
git log -5
git show
git diff x
/bin/pwd
/bin/echo x
jq .a x`),
    ],
  ),
  shell(
    'a folder that a wildcard chose',
    { allow: ['cd *', 'ls*', './run.sh*', 'git log*', 'node build.js*', 'npm test', 'cat docs/*'] },
    [
      ['allow', 'cd x && ls -la'],
      ['allow', 'git log && cd x'],
      ['ask', 'cd /tmp/x && ./run.sh'],
      ['ask', 'cd x && git log'],
      ['ask', '(cd x; git log)'],
      ['ask', 'cd x; node build.js'],
      ['ask', 'cd x && npm test'],
      ['ask', 'cd /etc && cat docs/x'],
    ],
  ),
  shell(
    'a folder that a rule spells',
    { allow: ['cd app', 'cd app && *', 'npm test', 'git log*'] },
    [
      ['allow', 'cd app && npm test'],
      ['allow', 'cd app && git log -5'],
      ['ask', 'cd apps && npm test'],
    ],
  ),
  shell('a denied command that another program runs', { deny: ['rm *'] }, [
    ...denied(`
/lib64/ld-linux-x86-64.so.2 /bin/rm x
ld.so /bin/rm x
linux64 rm x
env A-B=c rm x
env a.b= 'c d=e' rm x
env =b rm x
i386 rm x
setarch x86_64 rm x
git submodule foreach rm x
git submodule foreach 'rm x'
git bisect run rm x
git rebase -x 'rm x'
git -c alias.x='!rm x' x
git -c core.fsmonitor='rm x' status
tar xf a --to-command='rm x'
tar cf a --checkpoint-action=exec='rm x' b
rsync -e 'rm x' a b
ssh -o 'ProxyCommand=rm x' host
sort --compress-program=rm x
docker container exec box rm x
docker compose exec box rm x
ip netns exec n rm x
su root -c rm
sg group 'rm x'
nix shell p -c rm x
nix-shell --run 'rm x'
flatpak run --command=rm x
gosu me rm x
tini -- rm x
dumb-init rm x
envdir d rm x
hyperfine 'rm x'
screen -dm rm x
tmux new-session rm x
pwsh -c 'rm x'
nu -c 'rm x'
alias ls=rm`),
    ...allowed(`
git commit -m "rm the old files"
git -C sub status
git submodule update
tar xf a
docker container ls
ssh host uptime`),
  ]),
];
