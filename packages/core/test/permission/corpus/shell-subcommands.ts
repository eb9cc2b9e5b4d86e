/** Subcommands that a wildcard does not grant, and that rules find behind options. */
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
const wildcards =
  'git npm pnpm yarn cargo kubectl docker podman terraform pip go apt gh helm systemctl brew gem aws ' +
  'gcloud az ip hg vault uv';
const forbidden = [
  'git push*',
  'git remote add*',
  'git config*',
  'kubectl delete*',
  'kubectl config set*',
  'npm run *',
  'npm exec*',
  'npm i *',
  'yarn run *',
  'docker rm*',
  'docker image rm*',
  'gh pr merge*',
  'helm uninstall*',
  'ip link set*',
  'aws s3 rm*',
  'gcloud compute instances delete*',
  'pip install*',
  'terraform destroy*',
  'vault delete*',
];
const violations = `
git -C . push
git --no-pager push origin
git -c a=b push
git --git-dir=x --work-tree y push
git --unknown push
git --unknown x push
git $x push
git-push origin
sudo git -C . push
bash -c 'git -C . push'
git remote -v add a b
git --namespace x config alias.z '!x'
kubectl -n x delete pod y
kubectl --namespace=x delete pod y
kubectl config --kubeconfig=x set a b
npm --silent exe -- x
npm exe x
npm x y
npx y
npm --json false exec x
npm --foo bar exec x
npm run-script x
npm runScript x
npm --silent rum x
npm install x
npm add x
yarn build
docker --host x container rm y
docker -Dc x rm y
docker container remove y
docker rmi y
gh -R o/r pr merge 7
gh pr -R o/r merge 7
helm -n x del y
ip -4 l se eth0 down
aws --profile x s3 --region y rm z
gcloud --project p compute --quiet instances delete x
pip3 install x
pip3.12 -q install x
terraform -chdir=x destroy
vault -address=x delete y`;

export const shellSubcommands: readonly Group[] = [
  shell(
    'a subcommand that writes or runs, under a rule for the program',
    { allow: wildcards.split(' ').map((program) => `${program} *`) },
    [
      ...asked(`
git --namespace x config alias.z '!x'
git notes add -m x
git update-index --add --cacheinfo 100755,x,.git/hooks/post-checkout
git checkout-index -a
git my-alias
git branch -D x
git branch -vD x
git branch --list -D x
git tag -l -d x
git remote -v update
git reflog expire --all
git log --help
git --help log
git --exec-path=x log
git --list-cmds=x
git -p log
git diff *
git l* -5
npm exe -- x
npm exe x
npm ru x
npm -- exec x
npm --json false exec x
npm ls --prefix=x
npm ls --unknown
pnpm build
pnpm ls
pnpm why x
yarn list
cargo r
cargo z
cargo +nightly tree
cargo tree
cargo metadata --no-deps
cargo search x
kubectl get --raw /x
kubectl get -f x
kubectl --kubeconfig x get pods
kubectl --context x get pods
kubectl config view --raw
docker ps -H x
docker -H x ps
docker compose ps
podman --runtime x ps
terraform plan
terraform fmt
terraform output -json
terraform state list
terraform providers
terraform workspace list
pip --log x list
pip list --lo=x
go list -toolexec x y
go list -export x
go env -w a=b
apt -qo a=b list
apt in x
gh pr merge 7
gh pr view 7 --web
gh api x
gh alias set x y
helm template x
systemctl restart x
systemctl -H x status y
brew list ./x.rb
gem li
aws s3 rm x
aws secretsmanager get-secret-value
aws ec2 describe-instances --endpoint-url x
gcloud compute instances delete list
az vm delete -n x
ip l set x down
ip -batch x a
hg --config a=b log
vault read x
uv run x`),
      ...allowed(`
git --no-pager log -5
git "status"
git branch --list x
git tag -l
npm --silent ls --depth=0
npm c get x
cargo --list
kubectl -n x get pods -o wide
kubectl get pods -nx
docker image ls -q
podman ps -aq
terraform workspace show
pip -qq list
go list -m all
apt list --installed
gh -R o/r pr view 7
helm -n x list
systemctl --no-pager status x
aws ec2 describe-instances --region x
gcloud compute instances list
az vm list -o table
ip -br a`),
    ],
  ),
  shell(
    'a subcommand that a rule names',
    {
      allow: [
        'git {push,pull}*',
        'git branch *',
        'git tag -a *',
        'git remote *',
        'git remote set-url *',
        'gh pr *',
        'kubectl -n x delete *',
        'kubectl get *',
        'npm run test*',
        'npm exec *',
        'npm exe *',
        'npm exec eslint*',
        'docker run *',
        'docker exec box ls*',
        'go env *',
        'cargo test*',
        'ls*',
      ],
    },
    [
      ...allowed(`
git push origin main
git pull
git branch x
git tag -a v1 -m x
git remote get-url x
git remote set-url --push a b
gh pr list
kubectl -n x delete pod y
npm run test:unit
npm exec eslint src
docker exec box ls -la
cargo test x`),
      ...asked(`
git pushy
git push --receive-pack=x y
git branch -D x
git branch --delete x
git remote add a b
gh pr merge 7
kubectl -n x delete pod y --context prod
kubectl -n x delete pod y -shttps://example.com
kubectl get --raw /x
npm exec x
npm exec ls
npm exe ls
docker run x
docker run x ls
docker exec box sh
go env -w a=b
cargo test --manifest-path x/Cargo.toml`),
    ],
  ),
  shell('a denied subcommand behind options or under another name', { deny: forbidden }, [
    ...denied(violations),
    ...allowed(`
git -C x status
git log --grep push
git commit -m push
npm ls
yarn add x
docker ps
kubectl -n x get pods`),
    ...asked(`
git -C push status
kubectl -n delete get pods
git z
git -c alias.z=push z
gh co 7`),
  ]),
  shell(
    'a subcommand that needs a person, behind options or under another name',
    { ask: forbidden },
    [...asked(violations), ...allowed('git -C x status')],
  ),
];
