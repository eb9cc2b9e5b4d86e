import type { SubcommandTable } from '../subcommands.ts';

/*
 * Containers and clusters. `compose` reads a file of the folder that may include others by address,
 * `kubectl diff` starts the program that a variable names, and `terraform` starts those that the backend
 * of the folder names as soon as it reads the state (`output`, `state list`): they are no readers.
 */
export const containers: Readonly<Record<string, SubcommandTable>> = {
  'docker podman nerdctl': {
    options: '-v --version -D --debug -l= --log-level=',
    changing:
      '-c= --context= -H= --host= --config= --tls --tlscacert= --tlscert= --tlskey= --tlsverify ' +
      '-a= --address= -n= --namespace= --root= --runroot= --runtime= --hooks-dir= --conmon= --url= ' +
      '--connection= -r --remote --identity= --cgroup-manager= --storage-driver= --storage-opt= --tmpdir= ' +
      '--module= --events-backend= --log-opt=',
    readers: `
      config inspect -f= --format= --pretty
      config ls -f= --filter= --format= -q --quiet
      context inspect -f= --format=
      context ls --format= -q --quiet
      context show
      diff
      events -f= --filter= --format= --since= --until=
      history --format= -H --human --no-trunc -q --quiet
      image inspect -f= --format= --platform=
      images -a --all --digests -f= --filter= --format= --no-trunc -q --quiet --tree
      info -f= --format=
      inspect -f= --format= -s --size --type=
      logs --details -f --follow --since= -n= --tail= -t --timestamps --until=
      network inspect -f= --format= -v --verbose
      network ls -f= --filter= --format= --no-trunc -q --quiet
      node inspect -f= --format= --pretty
      node ls -f= --filter= --format= -q --quiet
      node ps -f= --filter= --format= --no-resolve --no-trunc -q --quiet
      plugin inspect -f= --format=
      plugin ls -f= --filter= --format= --no-trunc -q --quiet
      port
      ps -a --all -f= --filter= --format= -n= --last= -l --latest --no-trunc -q --quiet -s --size
      search -f= --filter= --format= --limit= --no-trunc
      secret ls -f= --filter= --format= -q --quiet
      service inspect -f= --format= --pretty
      service logs --details -f --follow --no-resolve --no-task-ids --no-trunc --raw --since= -n= --tail= -t --timestamps
      service ls -f= --filter= --format= -q --quiet
      service ps -f= --filter= --format= --no-resolve --no-trunc -q --quiet
      stack ls --format=
      stack ps -f= --filter= --format= --no-resolve --no-trunc -q --quiet
      stack services -f= --filter= --format= -q --quiet
      stats -a --all --format= --no-stream --no-trunc
      system df -v --verbose --format=
      top
      version -f= --format=
      volume inspect -f= --format=
      volume ls -f= --filter= --format= -q --quiet`,
    groups:
      'builder buildx checkpoint compose container generate image machine manifest pod swarm system trust',
    aliases: `
      attach|container attach
      build|image build|buildx build|builder build
      commit|container commit
      compose rm|compose remove
      config ls|config list
      config rm|config remove
      context ls|context list
      context rm|context remove
      cp|container cp
      create|container create
      diff|container diff
      events|system events
      exec|container exec
      export|container export
      history|image history
      images|image ls|image list
      import|image import
      info|system info
      kill|container kill
      load|image load
      logs|container logs
      network ls|network list
      network rm|network remove
      node ls|node list
      node rm|node remove
      pause|container pause
      plugin ls|plugin list
      plugin rm|plugin remove
      port|container port
      ps|container ls|container list|container ps
      pull|image pull
      push|image push
      rename|container rename
      restart|container restart
      rm|container rm|container remove
      rmi|image rm|image remove
      run|container run
      save|image save
      secret ls|secret list
      secret rm|secret remove
      service ls|service list
      service rm|service remove
      stack deploy|stack up
      stack ls|stack list
      stack rm|stack remove|stack down
      start|container start
      stats|container stats
      stop|container stop
      tag|image tag
      top|container top
      unpause|container unpause
      update|container update
      volume ls|volume list
      volume rm|volume remove
      wait|container wait`,
  },
  'kubectl oc': {
    options:
      '-n= --namespace= --request-timeout= --match-server-version --warnings-as-errors ' +
      '--disable-compression -h --help',
    changing:
      '--as= --as-group= --as-uid= --cache-dir= --certificate-authority= --client-certificate= ' +
      '--client-key= --cluster= --context= --insecure-skip-tls-verify --kubeconfig= ' +
      '--log-flush-frequency= --password= --profile= --profile-output= -s= --server= ' +
      '--tls-server-name= --token= --user= --username= -v= --v= --vmodule= --loglevel= --config=',
    readers: `
      api-resources --api-group= --cached --namespaced --no-headers -o= --output= --sort-by= --verbs= --categories=
      api-versions
      auth can-i --all-namespaces -A --list --no-headers -q --quiet --subresource=
      auth whoami -o= --output=
      cluster-info!
      config current-context
      config get-clusters
      config get-contexts --no-headers -o= --output=
      config get-users
      config view --flatten --merge --minify -o= --output=
      describe -A --all-namespaces --chunk-size= -l= --selector= --show-events
      events -A --all-namespaces --chunk-size= --for= --no-headers -o= --output= --types= -w --watch
      explain --api-version= --output= --recursive
      get -A --all-namespaces --chunk-size= --field-selector= --ignore-not-found -L= --label-columns= --no-headers -o= --output= --output-watch-events -l= --selector= --server-print --show-kind --show-labels --show-managed-fields --sort-by= --subresource= -w --watch --watch-only
      logs -f --follow -c= --container= --all-containers --all-pods --ignore-errors --limit-bytes= --max-log-requests= --pod-running-timeout= --prefix -p --previous -l= --selector= --since= --since-time= --tail= --timestamps
      options
      rollout history --revision= -o= --output= -l= --selector=
      rollout status --revision= --timeout= -w --watch -l= --selector=
      top node --no-headers -l= --selector= --show-capacity --sort-by= --use-protocol-buffers
      top pod -A --all-namespaces --containers --field-selector= --no-headers -l= --selector= --sort-by= --sum --use-protocol-buffers
      version --client -o= --output=`,
    groups: 'adm apply certificate create plugin set',
    aliases: `
      config use-context|config use
      logs|log
      rollout|rollouts
      top node|top nodes|top no
      top pod|top pods|top po`,
  },
  helm: {
    options: '-n= --namespace= --debug --color= -h --help',
    changing:
      '--burst-limit= --kube-apiserver= --kube-as-group= --kube-as-user= --kube-ca-file= ' +
      '--kube-context= --kube-insecure-skip-tls-verify --kube-tls-server-name= --kube-token= ' +
      '--kubeconfig= --qps= --registry-config= --repository-cache= --repository-config= --content-cache=',
    readers: `
      dependency list --max-col-width=
      env
      get all --revision= --template=
      get hooks --revision=
      get manifest --revision=
      get metadata --revision= -o= --output=
      get notes --revision=
      get values -a --all --revision= -o= --output=
      history --max= -o= --output=
      list -a --all -A --all-namespaces -d --date --deployed --failed -f= --filter= -m= --max= --no-headers --offset= -o= --output= --pending -r --reverse -l= --selector= -q --short --superseded --uninstalled --uninstalling
      plugin list
      repo list -o= --output=
      search repo --devel --fail-on-no-result --max-col-width= -o= --output= -r --regexp --version= -l --versions
      status -o= --output= --revision= --show-desc --show-resources
      version --short --template=`,
    groups: 'registry show',
    aliases: `
      dependency|dep|dependencies
      dependency list|dependency ls|dep list|dep ls|dependencies list|dependencies ls
      history|hist
      inspect|show
      list|ls
      plugin list|plugin ls
      plugin install|plugin add
      plugin uninstall|plugin rm|plugin remove
      plugin update|plugin up
      pull|fetch
      repo list|repo ls
      repo remove|repo rm
      repo update|repo up
      uninstall|del|delete|un`,
  },
  'terraform tofu': {
    options: '-help --help -h -version --version -v',
    changing: '-chdir=',
    readers: `
      fmt+-check -check -diff -recursive -list -no-color
      version -json
      workspace show`,
    groups: 'metadata state',
    aliases: `
      workspace list|env list
      workspace|env`,
  },
  'argocd consul crictl ctr eksctl flux istioctl k3s kind minikube nomad oras packer pulumi skaffold skopeo terragrunt vagrant vault buildah':
    { options: '--version' },
};
