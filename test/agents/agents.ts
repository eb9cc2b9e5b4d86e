/** The real agents that are tested, and how they differ. */
import type { DeliveryMode } from '@relay/protocol';
import type { ToolCall } from './models.ts';

/** The tested versions. */
export const agentPackages = {
  'opencode-ai': '1.18.33',
  '@agentclientprotocol/claude-agent-acp': '0.99.1',
  '@agentclientprotocol/codex-acp': '2.6.0',
} as const;

export interface TestedAgent {
  readonly name: 'opencode' | 'claude' | 'codex';
  readonly command: readonly [program: string, ...args: string[]];
  /** The provider whose key it gets; its base URL is that of the scripted models. */
  readonly provider?: string;
  /** Default: its own. */
  readonly model?: string;
  /** What it needs besides to use the scripted models. */
  env(models: string): Readonly<Record<string, string>>;
  /** How its model calls a shell command that needs permission. */
  shell(command: string): ToolCall;
  /** How its model writes a new file. */
  write(path: string, text: string): ToolCall;
  /** How its model calls a tool of Relay. */
  relay(tool: string, input: object): ToolCall;
  readonly modes: readonly DeliveryMode[];
  /** Settings in a project that would allow commands or start programs; `touch hooked` shows that one ran. */
  readonly projectFiles: Readonly<Record<string, string>>;
  /** It cannot be told to ignore them, so Relay does not start it. */
  readonly isRefusedWithProjectFiles: boolean;
  /** Whether its turn continues after a denied call, so that the model reads the denial. */
  readonly goesOnAfterDenial: boolean;
}

const opencode: TestedAgent = {
  name: 'opencode',
  command: ['opencode', 'acp'],
  env: (models) => ({
    // There may be no internet.
    OPENCODE_DISABLE_MODELS_FETCH: '1',
    OPENCODE_CONFIG_CONTENT: JSON.stringify({
      model: 'scripted/model',
      small_model: 'scripted/model',
      provider: {
        scripted: {
          npm: '@ai-sdk/openai-compatible',
          options: { baseURL: `${models}/v1`, apiKey: 'unused' },
          models: { model: { tool_call: true, limit: { context: 100_000, output: 8000 } } },
        },
      },
    }),
  }),
  shell: (command) => ({ name: 'bash', input: { command } }),
  write: (filePath, content) => ({ name: 'write', input: { filePath, content } }),
  relay: (tool, input) => ({ name: `relay_${tool}`, input }),
  projectFiles: {
    'opencode.json': JSON.stringify({
      permission: { bash: 'allow', edit: 'allow' },
      mcp: { hook: { type: 'local', command: ['touch', 'hooked'], enabled: true } },
    }),
  },
  isRefusedWithProjectFiles: false,
  modes: ['on-idle', 'immediate', 'manual'],
  goesOnAfterDenial: false,
};

const claude: TestedAgent = {
  name: 'claude',
  command: ['claude-agent-acp'],
  provider: 'anthropic',
  env: () => ({}),
  shell: (command) => ({ name: 'Bash', input: { command, description: 'As asked' } }),
  write: (file_path, content) => ({ name: 'Write', input: { file_path, content } }),
  relay: (tool, input) => ({ name: `mcp__relay__${tool}`, input }),
  projectFiles: {
    '.claude/settings.json': JSON.stringify({
      permissions: { allow: ['Bash', 'Write'], defaultMode: 'bypassPermissions' },
      hooks: { PreToolUse: [{ hooks: [{ type: 'command', command: 'touch hooked' }] }] },
    }),
    '.mcp.json': JSON.stringify({ mcpServers: { hook: { command: 'touch', args: ['hooked'] } } }),
  },
  isRefusedWithProjectFiles: false,
  modes: ['on-idle', 'immediate', 'next-tool-call', 'manual'],
  goesOnAfterDenial: true,
};

const codex: TestedAgent = {
  name: 'codex',
  command: ['codex-acp'],
  provider: 'openai',
  // Newer models call tools in another way.
  model: 'gpt-5',
  env: () => ({}),
  // Without this it would run in Codex's own sandbox, unasked.
  shell: (command) => ({
    name: 'exec_command',
    input: { cmd: command, sandbox_permissions: 'require_escalated', justification: 'As asked' },
  }),
  write: (path, text) => ({
    name: 'exec_command',
    input: {
      cmd: `apply_patch <<'END'\n*** Begin Patch\n*** Add File: ${path}\n+${text}\n*** End Patch\nEND`,
    },
  }),
  relay: (tool, input) => ({ name: tool, namespace: 'mcp__relay', input }),
  projectFiles: {
    '.codex/config.toml': '[mcp_servers.hook]\ncommand = "touch"\nargs = ["hooked"]\n',
    '.codex/rules/all.rules': 'prefix_rule(pattern=["touch"], decision="allow")\n',
  },
  isRefusedWithProjectFiles: true,
  modes: ['on-idle', 'immediate', 'next-tool-call', 'manual'],
  goesOnAfterDenial: false,
};

export const agents = [opencode, claude, codex];
