import { defineHarness, AgentSupervisor, AgentProcess, connectAgent } from '@relay/harnesses';
import { systemClock } from '@relay/core';
import { openAcpSession } from '../../packages/harnesses/src/acp/session.ts';
export function acp({ name, command, env }: any): any {
  const open = (input: any, context: any, state?: unknown) =>
    openAcpSession({
      harness: name, name, input, process: input.process, context, state, clock: systemClock,
      ...(name === 'claude' ? { meta: { claudeCode: { options: { settingSources: ['user'], strictMcpConfig: true, promptSuggestions: false } } } } : {}),
      supervise: (hooks) => new AgentSupervisor({ ...hooks, clock: systemClock, connect: async (client) => {
        const { home, workspace } = input.process;
        const { mkdirSync } = await import('node:fs');
        for (const d of ['.claude', '.codex']) mkdirSync(`${home}/${d}`, { recursive: true });
        const base = { PATH: process.env['PATH'] ?? '', LANG: 'C.UTF-8', TERM: 'dumb', HOME: home,
          OPENCODE_DISABLE_MODELS_FETCH: '1', OPENCODE_DISABLE_AUTOUPDATE: '1', OPENCODE_PURE: '1', OPENCODE_DISABLE_PROJECT_CONFIG: '1',
          CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC: '1', CLAUDE_CONFIG_DIR: `${home}/.claude`, CODEX_HOME: `${home}/.codex`, NO_BROWSER: '1', INITIAL_AGENT_MODE: 'read-only' };
        const all = { ...base, ...env };
        if (name === 'opencode') { const c = JSON.parse(all.OPENCODE_CONFIG_CONTENT); c.permission = { '*': 'ask', read: 'allow', task: 'deny', 'relay_*': 'allow' }; all.OPENCODE_CONFIG_CONTENT = JSON.stringify(c); }
        const program = new AgentProcess({ command: { file: command[0], args: command.slice(1), cwd: workspace, env: all }, secrets: [], memoryBytes: 8e9 } as any);
        return connectAgent(program, client, { clock: systemClock });
      } } as any),
    } as any);
  return defineHarness({ name, runsProcesses: true, create: (i, c) => open(i, c), attach: (i, c) => open(i, c, i.state) });
}
