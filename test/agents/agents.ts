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
  readonly program: string;
  /** The environment in which it uses the scripted models. */
  env(models: string): Readonly<Record<string, string>>;
  /** How its model calls a shell command that needs permission. */
  shell(command: string): ToolCall;
  /** How its model calls a tool of Relay. */
  relay(tool: string, input: object): ToolCall;
  readonly modes: readonly DeliveryMode[];
  /** Whether its turn continues after a denied call, so that the model reads the denial. */
  readonly goesOnAfterDenial: boolean;
}

const opencode: TestedAgent = {
  name: 'opencode',
  program: 'opencode',
  env: (models) => ({
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
  relay: (tool, input) => ({ name: `relay_${tool}`, input }),
  modes: ['on-idle', 'immediate', 'manual'],
  goesOnAfterDenial: false,
};

const claude: TestedAgent = {
  name: 'claude',
  program: 'claude-agent-acp',
  env: (models) => ({ ANTHROPIC_BASE_URL: models, ANTHROPIC_AUTH_TOKEN: 'unused' }),
  shell: (command) => ({ name: 'Bash', input: { command, description: 'As asked' } }),
  relay: (tool, input) => ({ name: `mcp__relay__${tool}`, input }),
  modes: ['on-idle', 'immediate', 'next-tool-call', 'manual'],
  goesOnAfterDenial: true,
};

const codex: TestedAgent = {
  name: 'codex',
  program: 'codex-acp',
  env: (models) => ({
    CODEX_CONFIG: JSON.stringify({
      model: 'gpt-5',
      model_provider: 'scripted',
      model_providers: {
        scripted: { name: 'scripted', base_url: `${models}/v1`, wire_api: 'responses' },
      },
    }),
    MODEL_PROVIDER: 'scripted',
  }),
  // Without this it would run in Codex's own sandbox, unasked.
  shell: (command) => ({
    name: 'exec_command',
    input: { cmd: command, sandbox_permissions: 'require_escalated', justification: 'As asked' },
  }),
  relay: (tool, input) => ({ name: tool, namespace: 'mcp__relay', input }),
  modes: ['on-idle', 'immediate', 'next-tool-call', 'manual'],
  goesOnAfterDenial: false,
};

export const agents = [opencode, claude, codex];
