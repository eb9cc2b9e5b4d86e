/** The completion scripts in their shells. */
import { execFileSync, spawnSync } from 'node:child_process';
import { chmodSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { expect, onTestFinished, test, vi } from 'vitest';
import { requires } from '../support/requires.ts';
import { TmuxTerminal, tmuxProblem } from '../support/tmux.ts';

/** A folder for PATH with the command `relay`, and a file to complete. */
function folderWithCommand(): string {
  const dir = mkdtempSync(join(tmpdir(), 'relay-completion-'));
  onTestFinished(() => rmSync(dir, { recursive: true, force: true }));
  const bin = fileURLToPath(new URL('../../packages/cli/bin/relay.mjs', import.meta.url));
  writeFileSync(join(dir, 'relay'), `#!/bin/sh\nexec '${process.execPath}' '${bin}' "$@"\n`);
  chmodSync(join(dir, 'relay'), 0o755);
  writeFileSync(join(dir, 'question.md'), '');
  return dir;
}

function shellProblem(shell: string): string | undefined {
  return spawnSync(shell, ['--version']).status === 0 ? undefined : `${shell} is not installed`;
}

test('the bash script completes in bash', () => {
  const dir = folderWithCommand();
  const complete = (...words: string[]) =>
    execFileSync(
      'bash',
      [
        '--norc',
        '-c',
        `source <(relay completion bash)
         COMP_WORDS=(relay ${words.map((word) => `'${word}'`).join(' ')})
         COMP_CWORD=${words.length}
         _relay; printf '%s\\n' "\${COMPREPLY[@]}"`,
      ],
      { encoding: 'utf8', env: { ...process.env, PATH: `${dir}:${process.env['PATH']}` } },
    ).trim();
  expect(complete('approvals', 'd')).toBe('deny');
  expect(complete('approvals', '')).toBe('list\nshow\nwatch\napprove\nanswer\ndeny');
  expect(complete('runs', 'list', '--status', 'wa')).toBe('waiting');
});

test('the fish script completes in fish', requires('fish', shellProblem('fish')), () => {
  const dir = folderWithCommand();
  const env = { ...process.env, HOME: dir, PATH: `${dir}:${process.env['PATH']}` };
  const complete = (line: string) =>
    execFileSync('fish', ['-c', `relay completion fish | source; complete -C '${line}'`], {
      encoding: 'utf8',
      cwd: dir,
      env,
    }).trim();
  expect(complete('relay approvals d')).toMatch(/^deny\tdeny the call.*$/);
  expect(complete('relay runs list --status wa')).toBe('waiting');
  expect(complete('relay chat ques')).toContain('question.md');
});

const zshProblem = shellProblem('zsh') ?? tmuxProblem();

test(
  'the zsh script completes in zsh, also before its completion is set up',
  { ...requires('zsh', zshProblem), timeout: 60_000 },
  async () => {
    const dir = folderWithCommand();
    const env = { HOME: dir, PATH: `${dir}:${process.env['PATH']}` };
    const terminal = new TmuxTerminal({ command: 'exec zsh -f', cwd: dir, env });
    onTestFinished(() => terminal.close());
    const shows = (text: RegExp) =>
      vi.waitFor(() => expect(terminal.screen).toMatch(text), { timeout: 30_000, interval: 100 });
    terminal.line('source <(relay completion zsh); print loaded: $+functions[_relay]');
    await shows(/^loaded: 1$/m);
    terminal.type('relay approvals d');
    terminal.press('Tab');
    await shows(/relay approvals deny $/m);
    terminal.press('C-u');
    terminal.type('relay runs ');
    terminal.press('Tab');
    await shows(/^cancel +-- cancel runs/m);
    terminal.press('C-u');
    terminal.type('relay chat ques');
    terminal.press('Tab');
    await shows(/relay chat question\.md/);
  },
);
