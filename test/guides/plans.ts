/**
 * What a reader has and does besides the commands of a guide: the configuration of the server, values for
 * words such as APPROVAL_ID, input, and what a command must print. What cannot run here has its reason.
 */
import { documents } from './documents.ts';
import type { Reader } from './reader.ts';

export interface Step {
  /** Before each of these commands. */
  readonly before?: (reader: Reader) => Promise<void> | void;
  /** Takes values for later commands from its output. */
  readonly after?: (reader: Reader, output: string) => Promise<void> | void;
  readonly stdin?: string;
  readonly env?: Readonly<Record<string, string>>;
  /** In a process of its own: what depends on the folder or the process. */
  readonly isReal?: boolean;
  /** What to run instead, where a reader's machine has what a test's has not. */
  readonly instead?: (command: string) => string;
  /** Default: 0. */
  readonly exit?: number;
  /** It does not end by itself; it is interrupted when it has printed this. */
  readonly until?: RegExp;
  /** What it must print. */
  readonly prints?: RegExp;
  /** Why it is not run, and where it is checked instead, if anywhere. */
  readonly skip?: string;
}

export interface Plan {
  /** Another test runs every command of the document, and fails if one is added. */
  readonly coveredBy?: string;
  /** Settings of the server. */
  readonly settings?: Readonly<Record<string, string>>;
  /** The block that is the server's `relay.config.ts`: the first one that matches, or the text itself. */
  readonly config?: RegExp | string;
  readonly prepare?: (reader: Reader) => Promise<void> | void;
  /** By what a command contains; of several, the last counts. */
  readonly steps?: Readonly<Record<string, Step>>;
}

/** A run that waits for the approval of `send_note`. */
function waitingNote(reader: Reader, input = 'notify the build is green'): Promise<void> {
  return waitingFor(reader, 'permission', input);
}

async function waitingFor(reader: Reader, kind: string, input: string): Promise<void> {
  const tools = ['send_note', ...(kind === 'question' ? ['order'] : [])].map((name) => ({
    name,
    kind: 'builtin' as const,
  }));
  const run = await reader.client.runs.create({ model: 'demo', input, tools });
  for await (const event of run) {
    if (event.type !== 'approval_requested') continue;
    if (event.kind !== kind) {
      await reader.client.approvals.approve(event.id);
      continue;
    }
    const { digest } = await reader.client.approvals.get(event.id);
    return reader.set({ RUN_ID: run.id, APPROVAL_ID: event.id, DIGEST: digest });
  }
  throw new Error('No approval was requested');
}

async function endedRun(reader: Reader): Promise<void> {
  const run = await reader.client.runs.create({ model: 'demo', input: 'say 2' });
  await run.result();
  reader.set({ RUN_ID: run.id });
}

async function activeRun(reader: Reader): Promise<void> {
  const { id } = await reader.client.runs.create({ model: 'demo', input: 'slow 20000' });
  reader.set({ RUN_ID: id });
}

async function ownKey(reader: Reader): Promise<void> {
  const { id } = await reader.client.keys.create({ name: 'ci', role: 'operator' });
  reader.set({ KEY_ID: id });
}

function blockOf(path: string, pattern: RegExp): string {
  const document = documents.find((each) => each.path === path);
  return document?.blocks.find(({ code }) => pattern.test(code))?.code ?? '';
}

/** The same for several subcommands. */
const each = (words: readonly string[], of: string, step: Step): Record<string, Step> =>
  Object.fromEntries(words.map((word) => [`${of}${word}`, step]));

async function anotherBuilder({ client }: Reader): Promise<void> {
  await client.sessions.create({ harness: 'native', handle: 'builder', model: 'demo' });
}

async function builderAndAda(reader: Reader): Promise<void> {
  await anotherBuilder(reader);
  await reader.run('relay sessions join --handle ada', { stdin: '/quit\n' });
}

/** To a person who is not there, so that it can still be changed. */
async function waitingMessage(reader: Reader): Promise<void> {
  const { id } = await reader.client.messages.send({ to: '@ada', text: 'Hello' });
  reader.set({ MESSAGE_ID: id });
}

async function failedDelivery(reader: Reader): Promise<void> {
  const { id } = await reader.client.messages.send({ to: '@builder', text: 'fail 401' });
  const [delivery] = await reader.client.messages.deliveries(id, { wait: 'consumed' });
  reader.set({ DELIVERY_ID: delivery?.id ?? '' });
}

async function webhook(reader: Reader): Promise<void> {
  const [first] = (await reader.client.webhooks.list().page()).items;
  reader.set({ WEBHOOK_ID: first?.id ?? '' });
}

async function webhookDelivery(reader: Reader): Promise<void> {
  await waitingNote(reader, 'use send_note {"to": "ada", "text": "Hi"}');
  await webhook(reader);
  const id = reader.value('WEBHOOK_ID') ?? '';
  const [delivery] = (await reader.client.webhooks.deliveries(id).page()).items;
  reader.set({ DELIVERY_ID: delivery?.id ?? '' });
}

const noAgent = 'needs the coding agent and its provider; test/agents runs them';
const noTerminal = 'needs a terminal; test/e2e/attach.test.ts has one';
const noInstall = 'changes the machine';
const noDocker = 'needs Docker; test/house/scale-out.test.ts checks the files';

const shellHarness = `
import { defineConfig, pty } from '@relay/server';
export default defineConfig({ harnesses: [pty({ name: 'shell', command: ['bash'] })] });
`;

/** A budget in dollars needs a price for every model. */
const freeDemo = `
import { defineConfig } from '@relay/server';
export default defineConfig({ prices: { demo: { inputPerMillion: 0, outputPerMillion: 0 } } });
`;

const askingTool = `
import { defineConfig, defineTool } from '@relay/server';
import { z } from 'zod';

const order = defineTool({
  name: 'order',
  description: 'Orders clothes',
  schema: z.object({ what: z.string() }),
  execute: async ({ what }, { ask }) => {
    const { size } = await ask({
      prompt: \`Which size of \${what}?\`,
      schema: { type: 'object', properties: { size: { enum: ['S', 'M'] } }, required: ['size'] },
    });
    return { context: \`Ordered \${what} in \${size}\` };
  },
});
export default defineConfig({ tools: [order] });
`;

const plans: Readonly<Record<string, Plan>> = {
  'README.md': { coveredBy: 'test/e2e/readme.test.ts' },

  'docs/guides/migrate.md': { coveredBy: 'test/guides/programs.test.ts' },
  'docs/guides/library-to-server.md': { coveredBy: 'test/guides/programs.test.ts' },

  'docs/guides/sessions.md': {
    steps: {
      'sessions send builder "say 3" --wait': { prints: /@builder consumed/ },
      '/deliveries?wait=consumed': { prints: /"status":"consumed"/ },
      'jq -r .message.text': { prints: /^resize the images$/m },
      'channels add team': { prints: /#team has 2 members/ },
    },
  },

  'docs/guides/agents.md': {
    config: /agents: \[triage\] \}\)/,
    steps: {
      'hand off to billing': { prints: /"agentName":"billing"/ },
      'use agent': { until: /approval_requested/ },
    },
  },

  'docs/guides/approvals-in-your-page.md': {
    steps: {
      // test/browser/approvals-page.test.ts uses the page.
      'npx node': {
        instead: (command) => command.replace('npx', 'PORT=0 npx'),
        until: /The page is at/,
      },
      'curl -N': { until: /approval_requested/ },
    },
  },

  'docs/guides/approvers.md': {
    steps: {
      'curl $RELAY_URL/v1/keys': {
        after: (reader, output) =>
          reader.set({ ADA_KEY: (JSON.parse(output) as { apiKey: string }).apiKey }),
      },
      'curl $RELAY_URL/v1/approvals': {
        before: (reader) =>
          waitingNote(reader, 'use send_note {"to": "production", "text": "Deploy 7"}'),
        prints: /"status":"pending"/,
      },
    },
  },

  'docs/guides/cli.md': {
    config: shellHarness,
    settings: { RELAY_WORKSPACE: '/srv/projects' },
    steps: {
      'relay chat': { stdin: 'say 2\n' },
      'relay chat --conversation': {
        stdin: 'say 2\n',
        before: async (reader) => {
          const [last] = (await reader.client.runs.list({ limit: 1 }).page()).items;
          reader.set({ CONVERSATION_ID: last?.conversationId ?? '' });
        },
      },
      'relay chat "calculate': { prints: /1081/ },
      'relay chat --json': { prints: /completed/ },
      '@README.md': { instead: (command) => `echo '# App' > README.md; ${command}` },
      'git diff | relay chat': {
        instead: (command) => command.replace('git diff', "echo '+ a line'"),
      },
      ...each(['show', 'approve', 'deny'], 'relay approvals ', {
        before: (reader) => waitingNote(reader),
      }),
      'relay grants revoke': {
        before: async (reader) => {
          const { id } = await reader.client.grants.create({ tool: 'send_note', scope: 'tenant' });
          reader.set({ GRANT_ID: id });
        },
      },
      'relay sessions tail': { until: /consumed|active|idle/ },
      'relay sessions start qa': {
        before: async (reader) => {
          const { items } = await reader.client.sessions.list().page();
          const builder = items.find(({ identity }) => identity.handle === 'builder');
          const { id } = await reader.client.sessions.snapshot(builder?.id ?? '');
          reader.set({ SNAPSHOT_ID: id });
        },
      },
      'relay sessions start claude': { skip: noAgent },
      'relay sessions attach': { skip: noTerminal },
      'relay sessions drop builder': { before: anotherBuilder },
      'relay channels add': { before: builderAndAda },
      ...each(['show', 'edit', 'withdraw'], 'relay messages ', { before: waitingMessage }),
      'relay messages redeliver': { before: failedDelivery },
      'relay webhooks deliveries': { before: webhook },
      'relay webhooks redeliver': { before: webhookDelivery },
      'relay runs show': { before: endedRun },
      'relay runs tail': { before: endedRun },
      'relay runs cancel': { before: activeRun },
      'relay runs fork': { before: endedRun },
      'relay serve': {
        instead: (command) => command.replace('4100', '0'),
        until: /listening on/,
      },
      'relay credentials set': { stdin: 'sk-ant-example' },
      'relay keys rotate': { before: ownKey },
      'relay login https': {
        instead: (command) =>
          `echo "$RELAY_API_KEY" | ${command.replace('https://relay.example.com', '$RELAY_URL')}`,
      },
      'relay restore': {
        isReal: true,
        before: async (reader) => {
          await reader.run('rm -rf /var/lib/relay; cp .relay/master-key .');
        },
      },
      'relay rotate-master-key': { env: { RELAY_DATA_DIR: '/var/lib/relay' } },
      // Commands run in bash. `test/cli/completion.test.ts` completes in each shell.
      'source <(relay completion zsh)': { instead: () => 'relay completion zsh' },
      'relay completion fish': {
        before: async (reader) => void (await reader.run('mkdir -p ~/.config/fish/completions')),
      },
    },
  },

  'docs/guides/cost-per-customer.md': {
    config: /prices: \{ demo/,
    steps: {
      'label=customer:acme': { prints: /"costUsd": 0?[.1-9]/ },
      'jq .totals': { prints: /"started"/ },
      'jq .usage': { prints: /\d/ },
    },
  },

  'docs/guides/troubleshooting.md': {},

  'docs/guides/coding-agents.md': {
    steps: {
      'relay credentials set': { stdin: 'sk-ant-example' },
      'relay sessions': { skip: noAgent },
      'relay approvals show': { before: (reader) => waitingNote(reader) },
      'relay approvals approve': { before: (reader) => waitingNote(reader) },
      'relay approvals deny': { before: (reader) => waitingNote(reader) },
    },
  },

  'docs/guides/approvals-in-slack.md': {
    steps: {
      'relay webhooks add': {
        after: (reader, output) =>
          reader.set({ WEBHOOK_SECRET: /whsec_\S+/.exec(output)?.[0] ?? '' }),
      },
      // test/e2e/slack-bridge.test.ts follows a request through the bridge.
      'npx node': {
        instead: (command) => command.replace(' npx', ' PORT=0 npx'),
        until: /receives webhooks on/,
      },
      'curl -N': { until: /approval_requested/ },
    },
  },

  'docs/guides/deploy.md': {
    prepare: async (reader) => {
      await reader.run('cp -r .relay /var/lib/relay');
    },
    steps: {
      ...each(['useradd', 'npm init', 'npm install', 'install -m', 'chown', 'mv '], '', {
        skip: noInstall,
      }),
      'cp relay.service': { skip: noInstall },
      systemctl: { skip: 'needs systemd; test/e2e/deploy.test.ts verifies the unit' },
      journalctl: { skip: 'needs systemd' },
      'caddy validate': { skip: 'test/e2e/deploy.test.ts runs Caddy' },
      'nginx -t': { skip: 'test/e2e/deploy.test.ts runs nginx' },
      'export RELAY_URL=https': {
        skip: 'needs a public name; test/e2e/deploy.test.ts has a local one',
      },
      'curl -N': { until: /approval_requested/ },
      'relay restore': {
        before: async (reader) => {
          await reader.run('mv /var/lib/relay /var/lib/relay.newer');
        },
      },
    },
  },

  'docs/guides/first-project.md': {
    steps: each(['npm ', 'npx relay init', 'cd my-bot', 'cd ../my-bot'], '', {
      skip: 'installs packages; test/e2e/packed.test.ts makes and starts a project from the tarball',
    }),
  },

  'docs/guides/function-tools.md': {
    steps: {
      'curl -N -D headers.txt': {
        until: /"type":"tool_call"/,
      },
      'curl -X POST "$RELAY_URL/v1/runs/$RUN_ID/tool-results/call_1/claim"': {
        before: async (reader) => {
          const tools = [
            { name: 'get_user', kind: 'function', inputSchema: { type: 'object' } } as const,
          ];
          const { id } = await reader.client.runs.create({
            model: 'demo',
            input: 'use get_user {"id":"u_001"}',
            tools,
          });
          for await (const { type } of reader.client.runs.stream(id)) {
            if (type === 'tool_call') break;
          }
          reader.set({ RUN_ID: id });
        },
        prints: /claimId/,
      },
    },
  },

  'docs/guides/governance.md': {
    steps: { 'relay keys rotate': { before: ownKey } },
  },

  'docs/guides/harnesses.md': {
    config: shellHarness,
    settings: { RELAY_WORKSPACE: '/srv/projects' },
    steps: {
      'npm install -g': { skip: 'downloads a package; test/agents installs it' },
      'relay sessions start claude': { skip: noAgent },
      'relay sessions attach': { skip: noTerminal },
    },
  },

  'docs/guides/mcp-server.md': {
    steps: { 'claude mcp add': { skip: noAgent } },
  },

  'docs/guides/memory.md': {
    steps: {
      'curl -X DELETE "$RELAY_URL/v1/memories/$ID"': {
        before: async (reader) => {
          const added = await reader.client.memories.add({ namespace: 'user:42', text: 'A dog' });
          reader.set({ ID: added.id });
        },
      },
    },
  },

  'docs/guides/models.md': {
    steps: {
      'curl -N $RELAY_URL/v1/runs': {
        skip: 'calls the provider; packages/models/test has scripted ones',
      },
      'relay models update': {
        before: (reader) =>
          reader.write('models.json', blockOf('docs/guides/models.md', /our contract/)),
      },
    },
  },

  'docs/guides/operations.md': {
    config: freeDemo,
    steps: {
      'export RELAY_DATABASE_URL': { skip: 'needs PostgreSQL; test/e2e/nodes.test.ts has it' },
      'export RELAY_MASTER_KEY': { skip: 'belongs to the command before' },
      '{"paused": true}': {
        after: async ({ client }) => void (await client.tenant.update({ paused: false })),
      },
      'curl -X POST $RELAY_URL/v1/runs/$RUN_ID/resume': { before: activeRun },
      'curl $RELAY_URL/v1/runs/$RUN_ID/fork': { before: endedRun },
    },
  },

  'docs/guides/permissions.md': {
    config: askingTool,
    steps: {
      'curl $RELAY_URL/v1/approvals/$APPROVAL_ID': {
        before: (reader) => waitingNote(reader, 'use send_note {"to": "ada", "text": "Hi"}'),
      },
      '{"size": "M"}': {
        before: (reader) => waitingFor(reader, 'question', 'use order {"what": "coat"}'),
      },
      'relay approvals answer': {
        skip: 'needs a crash at the right moment; test/e2e/kill.test.ts has it',
      },
    },
  },

  'docs/guides/scale-out.md': {
    steps: {
      'docker compose': { skip: noDocker },
      'RELAY_API_KEY=…': { skip: noDocker },
      'slow 30000': { instead: (command) => command.replace('30000', '300') },
    },
  },

  'docs/guides/tools.md': {
    prepare: async (reader) =>
      void (await reader.run('mkdir /srv/projects/mine /srv/projects/acme')),
  },
};

export function planOf(path: string): Plan {
  return plans[path] ?? {};
}

export const planned = Object.keys(plans);
