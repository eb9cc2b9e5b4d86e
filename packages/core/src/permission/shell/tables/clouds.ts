import type { SubcommandTable } from '../subcommands.ts';

/** Clouds and forges. Operations that return a secret (`get-secret-value`, `auth token`) are no readers. */
export const clouds: Readonly<Record<string, SubcommandTable>> = {
  aws: {
    depth: 2,
    options:
      '--version --region= --output= --no-paginate --no-cli-pager --color= --query= ' +
      '--cli-read-timeout= --cli-connect-timeout= --debug',
    changing:
      '--profile= --endpoint-url= --no-verify-ssl --no-sign-request --ca-bundle= ' +
      '--cli-binary-format= --cli-auto-prompt --no-cli-auto-prompt',
    readers: `
      * describe-* --filters= --max-items= --page-size= --starting-token= --max-results= --name= --names= --instance-ids= --cluster= --clusters= --services= --stack-name= --log-group-name= --log-group-name-prefix= --image-ids= --owners= --vpc-ids= --group-ids= --db-instance-identifier= --table-name= --no-include-deleted
      * list-* --max-items= --page-size= --starting-token= --max-results= --cluster= --bucket= --prefix= --function-name= --stack-name= --service-name= --user-name= --role-name= --hosted-zone-id=
      configure list
      s3 ls --recursive --human-readable --summarize --page-size=
      sts get-caller-identity`,
  },
  gcloud: {
    depth: 3,
    options:
      '-q --quiet --verbosity= --format= --project= --flatten= -v --version --no-user-output-enabled',
    changing:
      '--account= --billing-project= --configuration= --flags-file= --access-token-file= ' +
      '--impersonate-service-account= --log-http --trace-token= --user-output-enabled',
    readers: `
      auth list --filter-account=
      compute instances describe --zone=
      compute instances list --zones= --filter= --limit= --sort-by= --uri
      compute regions list --filter= --limit=
      compute zones list --filter= --limit=
      config list
      container clusters describe --zone= --region= --location=
      container clusters list --zone= --region= --location= --filter= --limit=
      functions list --regions= --filter= --limit=
      info!
      projects describe
      projects list --filter= --limit= --sort-by=
      run services describe --region= --platform=
      run services list --region= --platform= --filter= --limit=
      services list --enabled --available --filter= --limit=
      sql instances describe
      sql instances list --filter= --limit=
      version`,
  },
  az: {
    depth: 4,
    options: '-o= --output= --query= --only-show-errors --verbose --version',
    changing: '--subscription= --debug',
    readers: `
      account list --all
      account show
      aks list -g= --resource-group=
      aks show -g= --resource-group= -n= --name=
      group list --tag=
      group show -n= --name= -g= --resource-group=
      resource list -g= --resource-group= --resource-type= --tag= -n= --name=
      version
      vm list -g= --resource-group= -d --show-details
      vm show -g= --resource-group= -n= --name= -d --show-details
      webapp list -g= --resource-group=`,
  },
  gh: {
    options: '--version -R= --repo= --help -h',
    changing: '--hostname=',
    readers: `
      auth status -a --active
      gist list -L= --limit= --public --secret --filter=
      gist view -f= --filename= --files -r --raw
      issue list -A= --author= -a= --assignee= --app= -q= --jq= --json= -l= --label= -L= --limit= --mention= -m= --milestone= -S= --search= -s= --state= -t= --template=
      issue status -q= --jq= --json= -t= --template=
      issue view -c --comments -q= --jq= --json= -t= --template=
      label list -q= --jq= --json= -L= --limit= --order= -S= --search= --sort= -t= --template=
      org list -L= --limit=
      pr checks --fail-fast -i= --interval= -q= --jq= --json= --required -t= --template= --watch
      pr diff --color= --name-only --patch
      pr list -A= --author= -a= --assignee= --app= -B= --base= -d --draft -H= --head= -q= --jq= --json= -l= --label= -L= --limit= -S= --search= -s= --state= -t= --template=
      pr status -c --conflict-status -q= --jq= --json= -t= --template=
      pr view -c --comments -q= --jq= --json= -t= --template=
      release list --exclude-drafts --exclude-pre-releases -q= --jq= --json= -L= --limit= -O= --order= -t= --template=
      release view -q= --jq= --json= -t= --template=
      repo list --archived --fork -q= --jq= --json= -l= --language= -L= --limit= --no-archived --source -t= --template= --topic= --visibility=
      repo view -b= --branch= -q= --jq= --json= -t= --template=
      ruleset check --default
      ruleset list -L= --limit= -o= --org= -p --parents
      ruleset view -o= --org= -p --parents
      run list -a --all -b= --branch= -c= --commit= --created= -e= --event= -q= --jq= --json= -L= --limit= -s= --status= -t= --template= -u= --user= -w= --workflow=
      run view -a= --attempt= --exit-status -j= --job= -q= --jq= --json= --log --log-failed -t= --template= -v --verbose
      run watch --compact --exit-status -i= --interval=
      search code --extension= --filename= --language= -L= --limit= --match= --owner= --size= -q= --jq= --json= -t= --template=
      search commits --author= -L= --limit= --owner= --order= --sort= -q= --jq= --json= -t= --template=
      search issues --assignee= --author= --label= -L= --limit= --owner= --order= --sort= --state= -q= --jq= --json= -t= --template=
      search prs --assignee= --author= --label= -L= --limit= --owner= --order= --sort= --state= -q= --jq= --json= -t= --template=
      search repos -L= --limit= --language= --owner= --order= --sort= --topic= -q= --jq= --json= -t= --template=
      status -e= --exclude= -o= --org=
      workflow list -a --all -q= --jq= --json= -L= --limit= -t= --template=
      workflow view -r= --ref= -y --yaml`,
    groups:
      'alias attestation cache codespace config extension gpg-key project secret ssh-key variable preview agent-task',
    aliases: `
      codespace|cs
      extension|extensions|ext
      gist list|gist ls
      issue create|issue new
      issue list|issue ls
      label list|label ls
      org list|org ls
      pr create|pr new
      pr list|pr ls
      project|projects
      release create|release new
      release list|release ls
      repo create|repo new
      repo list|repo ls
      ruleset|rs
      ruleset list|ruleset ls|rs list|rs ls
      run list|run ls
      variable|variables
      workflow list|workflow ls`,
    others: 'api browse completion copilot help skill version',
  },
  'bq doctl firebase fly flyctl gcutil glab gsutil heroku ibmcloud linode-cli mc netlify oci rclone railway s3cmd sam sentry-cli serverless supabase twilio vercel wrangler':
    { options: '--version' },
};
