/*
 * Options by which a program does more than its name says: runs another program, or writes a file
 * although it usually reads. A wildcard allows none of them, and deny rules search their values for
 * commands. Programs that are not listed are assumed to have none.
 */
import { spendSteps } from '../step-budget.ts';

interface Word {
  readonly text: string;
  readonly globs: boolean;
}

/*
 * Each line is a program, or a program with a subcommand, and its options. A leading `=`: only in
 * exactly this spelling, never in a bundle of short options. `+`, and what follows `^`: any word that
 * starts with it.
 */
const TABLE = `
ack --pager
ag --pager
ar --plugin
apt -o -c --option --config-file
apt-cache -o -c --option --config-file
apt-get -o -c --option --config-file
aptitude -o
aws --endpoint-url --profile
az --subscription
bat --pager --config-file
cargo --config --manifest-path --target-dir --artifact-dir -C -Z
clang -fplugin -load --config -specs
cmake =-P =-E
curl -o -O -J -K -T -D -c --output --output-dir --remote-name --remote-name-all --remote-header-name --config --upload-file --dump-header --cookie-jar --trace --trace-ascii --stderr --libcurl --engine --hsts --alt-svc --etag-save
date -s --set
dmesg -C -c -D -E -n --clear --read-clear --console-off --console-on --console-level
fd -x -X --exec --exec-batch
fdfind -x -X --exec --exec-batch
file -C --compile
find -exec -execdir -ok -okdir -delete -fprint -fprint0 -fprintf -fls
g++ -wrapper -fplugin -specs --specs
gcc -wrapper -fplugin -specs --specs
git =--help -c -C -O -o -x --config --config-env --exec --exec-path --export-marks --ext-diff --extcmd --filters --git-dir --open-files-in-pager --output --output-directory --receive-pack --super-prefix --template --textconv --unsafe-paths --upload-archive --upload-pack --work-tree
git clone -u
go =-C -exec -toolexec -vettool -modfile -overlay =-o =-w -outputdir -coverprofile -cpuprofile -memprofile -blockprofile -mutexprofile -trace
gcloud --account --flags-file --configuration --access-token-file --impersonate-service-account
gpg -o --output --agent-program --dirmngr-program --exec-path --photo-viewer --options --homedir
helm --post-renderer --kubeconfig --kube-apiserver --kube-as-group --kube-as-user --kube-ca-file --kube-context --kube-token --registry-config --repository-cache --repository-config
iconv -o --output
iptables --modprobe
journalctl --cursor-file --flush --relinquish-var --rotate --setup-keys --update-catalog --vacuum-files --vacuum-size --vacuum-time
kubectl ^-s --as --as-group --as-uid --cache-dir --certificate-authority --client-certificate --client-key --cluster --context --insecure-skip-tls-verify --kubeconfig --password --profile-output --server --tls-server-name --token --user --username
less -o -O -k --log-file --lesskey-file --lesskey-src --lesskey-content +
man -C -E -H -P -X --config-file --gxditview --html --pager
more +
nm --plugin
nmap -o --script --script-args-file --datadir --stylesheet
npm -C -c --browser --call --editor --git --globalconfig --init-module --node-options --prefix --script-shell --shell --userconfig --viewer
openssl -out -keyout -writerand -engine -provider -provider-path -config
oc ^-s --as --as-group --as-uid --cache-dir --certificate-authority --client-certificate --client-key --cluster --context --insecure-skip-tls-verify --kubeconfig --password --profile-output --server --tls-server-name --token --user --username
pandoc -F -L -o -d --filter --lua-filter --output --defaults --pdf-engine --extract-media
pip --log --log-file --local-log --python
pnpm -C -c --dir --node-options --prefix --script-shell --shell-mode --config.
printf -v
ranlib --plugin
rg --pre --hostname-bin
rsync -e -M --config --daemon --log-file --only-write-batch --remote-option --rsh --rsync-path --write-batch
scp -D -F -S -o
sdiff -o --output
sftp -D -F -S -b -o
shuf -o --output
sort -o -T --output --compress-program --temporary-directory
split --filter
ss -D -K --diag --kill
ssh-add -s
ssh-keygen -D -w
tar -I -F --checkpoint-action --index-file --info-script --new-volume-script --rmt-command --rsh-command --to-command --use-compress-program
systemctl -H -M --host --machine --root --image
tcpdump -w -z
terraform -chdir -plugin-dir
tofu -chdir -plugin-dir
tree -o -R
tshark -w -X
wget -a -e -o -O -P --append-output --config --directory-prefix --execute --output-document --output-file --post-file --body-file --use-askpass
xmllint -o --output --shell
xsltproc -o --output
yarn --cwd --node-options --script-shell --use-yarnrc
yq -i -s --inplace --split-exp --split-exp-file --security-enable-system-operator
zip -T -TT --unzip-command
`;

const SIDE_EFFECT_OPTIONS: ReadonlyMap<string, readonly string[]> = new Map(
  TABLE.trim()
    .split('\n')
    .map((line) => {
      const [, program = '', options = ''] = /^(\S+(?: [a-z]+)?) ([-=+^].*)$/.exec(line) ?? [];
      return [program, options.split(' ')] as const;
    }),
);

/** The number of files that a program reads; it writes to the next one. */
const OPERANDS_READ: ReadonlyMap<string, number> = new Map([
  ['uniq', 1],
  ['xxd', 1],
]);
/** Programs that pass the words after `--` to a script. */
const SCRIPT_RUNNERS: ReadonlySet<string> = new Set(['npm', 'pnpm', 'yarn']);

/** What it costs to compare an option with a word. */
const OPTION_STEPS = 8;

/** Whether a word may be an option with side effects; abbreviations count. */
export function hasSideEffectOption(program: string, words: readonly Word[]): boolean {
  const read = OPERANDS_READ.get(program);
  if (read !== undefined && countOperands(words) > read) return true;
  if (program === 'date' && words.some(({ text }) => /^\d{8}/.test(text))) return true;
  const always = SIDE_EFFECT_OPTIONS.get(program);
  if (always === undefined) return false;
  const subcommand = subcommandOf(words)?.text ?? '';
  const options = [...always, ...(SIDE_EFFECT_OPTIONS.get(`${program} ${subcommand}`) ?? [])];
  const end = SCRIPT_RUNNERS.has(program) ? words.findIndex(({ text }) => text === '--') : -1;
  const own = end < 0 ? words : words.slice(0, end);
  return own.some(({ text, globs }, at) => {
    if (text.startsWith('-')) spendSteps(OPTION_STEPS * options.length);
    // A file name that a glob matches may start with a dash, too.
    if (globs && /^[-*?[]/.test(text)) return true;
    // tar reads its first word as options even without a dash.
    const word = program === 'tar' && at === 0 && /^\w/.test(text) ? `-${text}` : text;
    return options.some((option) => mayBeOption(option, word));
  });
}

function subcommandOf(words: readonly Word[]): Word | undefined {
  return words.find(({ text }) => !text.startsWith('-'));
}

function countOperands(words: readonly Word[]): number {
  const operands = words.filter(({ text }) => !text.startsWith('-') || text === '-');
  return operands.some(({ globs }) => globs) ? Infinity : operands.length;
}

function mayBeOption(option: string, word: string): boolean {
  if (option === '+') return word.startsWith('+');
  if (option.startsWith('^')) return word.startsWith(option.slice(1));
  if (!word.startsWith('-') || word === '-' || word === '--') return false;
  const name = word.split('=', 1)[0]!;
  if (option.startsWith('=')) return name === option.slice(1);
  if (option.endsWith('.')) return word.startsWith(option);
  if (option.startsWith('--')) return word.startsWith('--') && option.startsWith(name);
  // Short options can be bundled; long names with one dash, as in find, cannot.
  if (option.length > 2) return name === option || name === `-${option}`;
  return !word.startsWith('--') && word.includes(option.slice(1));
}
