/**
 * Agents that Relay knows: how they are started so that they ask for permission, ignore what a project says
 * about permissions, and use the tenant's key. What each of them never asks about is in the guide.
 */
import { readdir, stat } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import type { HarnessCredential } from '@relay/core';
import { defined } from '@relay/protocol';

export interface AgentPreset {
  /** For people. */
  readonly title: string;
  readonly command: readonly [program: string, ...args: string[]];
  /** The npm package that has the program. */
  readonly package: string;
  /** The model providers whose keys it can use. */
  readonly providers: readonly string[];
  readonly environment: (setting: AgentSetting) => Readonly<Record<string, string>>;
  /** Files in a home folder of its own, by their paths in it. */
  readonly files?: Readonly<Record<string, unknown>>;
  /** It runs commands in sandboxes of its own. */
  readonly nestsSandboxes?: boolean;
  /** `_meta` of the requests that open an ACP session. */
  readonly sessionMeta?: Readonly<Record<string, unknown>>;
  /** Paths in its home that a fork does not copy: they name that home, and it makes them anew. */
  readonly uncopied?: RegExp;
  /** What it is authenticated with if its environment has the variable. */
  readonly authentication?: { readonly methodId: string; readonly variable: string };
  /** Why it must not be started in a folder; undefined if it may. */
  readonly problemWith?: (workspace: string) => Promise<string | undefined>;
}

export interface AgentSetting {
  /** Undefined: that of the operator, with the operator's own settings. */
  readonly home: string | undefined;
  readonly model: string | undefined;
  readonly credentials: Readonly<Record<string, HarnessCredential>>;
}

const claude: AgentPreset = {
  title: 'Claude Code',
  command: ['claude-agent-acp'],
  package: '@agentclientprotocol/claude-agent-acp',
  providers: ['anthropic'],
  environment: ({ home, model, credentials: { anthropic: key } }) => ({
    CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC: '1',
    DISABLE_AUTOUPDATER: '1',
    ...defined({
      CLAUDE_CONFIG_DIR: home && join(home, '.claude'),
      ANTHROPIC_MODEL: model,
      ANTHROPIC_API_KEY: key?.apiKey,
      ANTHROPIC_BASE_URL: withoutVersion(key?.baseUrl),
    }),
  }),
  files: { '.claude/settings.json': { permissions: { disableBypassPermissionsMode: 'disable' } } },
  sessionMeta: {
    // Without these, hooks and MCP servers of the project start unasked.
    claudeCode: {
      options: {
        settingSources: ['user'],
        strictMcpConfig: true,
        allowDangerouslySkipPermissions: false,
        promptSuggestions: false,
      },
    },
    // It is one of the settings of a project.
    systemPrompt: {
      append: 'If the working folder has a CLAUDE.md, read it before you begin, and follow it.',
    },
  },
};

const codex: AgentPreset = {
  title: 'Codex',
  command: ['codex-acp'],
  package: '@agentclientprotocol/codex-acp',
  providers: ['openai'],
  environment: ({ home, model, credentials: { openai: key } }) => ({
    NO_BROWSER: '1',
    // Its own sandbox is read-only, and it asks for what needs more.
    INITIAL_AGENT_MODE: 'read-only',
    CODEX_CONFIG: JSON.stringify({
      ...defined({ model }),
      ...(key === undefined ? {} : { model_provider: 'relay', ...openAiProvider(key) }),
    }),
    ...defined({
      CODEX_HOME: home && join(home, '.codex'),
      MODEL_PROVIDER: key && 'relay',
      OPENAI_API_KEY: key?.apiKey,
    }),
  }),
  files: { '.codex/': {} },
  // The paths of conversations, which it finds without, too.
  uncopied: /^\.codex\/[^/]+\.sqlite/,
  nestsSandboxes: true,
  problemWith: codexProjectProblem,
};

function openAiProvider({ baseUrl }: HarnessCredential): Readonly<Record<string, unknown>> {
  const provider = {
    name: 'Relay',
    base_url: baseUrl ?? 'https://api.openai.com/v1',
    wire_api: 'responses',
    env_key: 'OPENAI_API_KEY',
  };
  return { model_providers: { relay: provider } };
}

const codexSettings = /^(?:config\.toml|rules|hooks.*)$/;

/** Its adapter trusts every project, and rules of a project allow commands unasked and without a sandbox. */
async function codexProjectProblem(workspace: string): Promise<string | undefined> {
  for (let folder = workspace; ; folder = dirname(folder)) {
    const names = await readdir(join(folder, '.codex')).catch(() => []);
    const found = names.find((name) => codexSettings.test(name));
    if (found !== undefined) {
      const path = join(folder, '.codex', found);
      return `Codex would follow ${path}, which can allow commands without asking: remove it, or choose another folder`;
    }
    const isTop = await stat(join(folder, '.git')).then(
      () => true,
      () => false,
    );
    if (isTop || dirname(folder) === folder) return undefined;
  }
}

const opencode: AgentPreset = {
  title: 'opencode',
  command: ['opencode', 'acp'],
  package: 'opencode-ai',
  providers: ['anthropic', 'openai', 'google'],
  environment: ({ model, credentials: { anthropic, openai, google } }) => ({
    OPENCODE_DISABLE_AUTOUPDATE: '1',
    OPENCODE_DISABLE_PROJECT_CONFIG: '1',
    OPENCODE_PURE: '1',
    OPENCODE_CONFIG_CONTENT: JSON.stringify({
      share: 'disabled',
      autoupdate: false,
      // The last one that matches wins. Without an own rule, reading `.env` files is asked about.
      permission: {
        '*': 'ask',
        read: { '*': 'allow', '*.env': 'ask', '*.env.*': 'ask' },
        glob: 'allow',
        grep: 'allow',
        list: 'allow',
        todowrite: 'allow',
        todoread: 'allow',
        // What a sub-agent asks for never reaches the client, and the turn would not end.
        task: 'deny',
        // Relay itself decides about these calls.
        'relay_*': 'allow',
      },
      provider: Object.fromEntries(
        Object.entries({ anthropic, openai, google }).flatMap(([name, key]) =>
          key?.baseUrl === undefined ? [] : [[name, { options: { baseURL: key.baseUrl } }]],
        ),
      ),
      ...defined({ model }),
    }),
    ...defined({
      ANTHROPIC_API_KEY: anthropic?.apiKey,
      OPENAI_API_KEY: openai?.apiKey,
      GOOGLE_GENERATIVE_AI_API_KEY: google?.apiKey,
    }),
  }),
};

const gemini: AgentPreset = {
  title: 'Gemini CLI',
  command: ['gemini', '--acp'],
  package: '@google/gemini-cli',
  providers: ['google'],
  environment: ({ home, model, credentials: { google: key } }) => ({
    GEMINI_TELEMETRY_ENABLED: 'false',
    ...defined({
      GEMINI_CLI_HOME: home,
      GEMINI_CLI_SYSTEM_SETTINGS_PATH: home && join(home, '.gemini/system-settings.json'),
      GEMINI_MODEL: model,
      GEMINI_API_KEY: key?.apiKey,
      GOOGLE_GEMINI_BASE_URL: withoutVersion(key?.baseUrl),
    }),
  }),
  // An untrusted folder has no say about permissions, hooks and MCP servers.
  files: {
    '.gemini/system-settings.json': {
      security: { folderTrust: { enabled: true }, disableYoloMode: true },
      general: { disableAutoUpdate: true },
    },
  },
  authentication: { methodId: 'gemini-api-key', variable: 'GEMINI_API_KEY' },
};

/** Base URLs of credentials have the version of the API, as `https://api.anthropic.com/v1` has. */
function withoutVersion(baseUrl: string | undefined): string | undefined {
  return baseUrl?.replace(/\/v\d+(?:beta)?\/?$/, '');
}

export const agentPresets: Readonly<Record<string, AgentPreset>> = {
  claude,
  codex,
  opencode,
  gemini,
};
