/** The home of a fork, which begins as that of its parent. */
import { execFileSync } from 'node:child_process';
import {
  existsSync,
  lstatSync,
  mkdirSync,
  mkdtempSync,
  readFileSync,
  readlinkSync,
  rmSync,
  statSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, describe, expect, it } from 'vitest';
import { copyHome } from '../../src/acp/copy-home.ts';
import { agentPresets } from '../../src/acp/presets.ts';

const folder = mkdtempSync(join(tmpdir(), 'relay-homes-'));
afterAll(() => rmSync(folder, { recursive: true, force: true }));

describe('the home of a fork', () => {
  const home = join(folder, 'parent');
  const secret = join(folder, 'secret');

  it('has the files and folders of its parent, and links as they are', async () => {
    mkdirSync(join(home, 'a', 'b'), { recursive: true });
    writeFileSync(join(home, 'a', 'b', 'c'), 'text'.repeat(100_000), { mode: 0o600 });
    writeFileSync(secret, 'secret');
    symlinkSync(secret, join(home, 'link'));
    execFileSync('mkfifo', [join(home, 'pipe')]);
    const copy = join(folder, 'copy');
    writeFileSync(join(home, 'a', 'left.sqlite'), '');
    await copyHome({ home }, copy, /^a\/[^/]+\.sqlite$/);
    const file = join(copy, 'a', 'b', 'c');
    expect(readFileSync(file, 'utf8')).toBe('text'.repeat(100_000));
    expect(statSync(file).mode & 0o777).toBe(0o600);
    expect(lstatSync(join(copy, 'link')).isSymbolicLink()).toBe(true);
    expect(readlinkSync(join(copy, 'link'))).toBe(secret);
    expect(existsSync(join(copy, 'pipe'))).toBe(false);
    expect(existsSync(join(copy, 'a', 'left.sqlite'))).toBe(false);
  });

  it('is without the files that are left out', async () => {
    mkdirSync(join(home, '.codex', 'sessions'), { recursive: true });
    writeFileSync(join(home, '.codex', 'state_5.sqlite'), home);
    writeFileSync(join(home, '.codex', 'sessions', 'rollout.jsonl'), '{}');
    const copy = join(folder, 'without');
    await copyHome({ home }, copy, agentPresets['codex']?.uncopied);
    expect(existsSync(join(copy, '.codex', 'state_5.sqlite'))).toBe(false);
    expect(existsSync(join(copy, '.codex', 'sessions', 'rollout.jsonl'))).toBe(true);
  });

  it('is not made of what a link in its place leads to', async () => {
    const link = join(folder, 'home-link');
    symlinkSync(home, link);
    await expect(copyHome({ home: link }, join(folder, 'none'))).rejects.toThrow(
      'cannot be copied',
    );
  });

  it('needs the home of its parent, on the same node', async () => {
    const missing = copyHome({ home: join(folder, 'missing') }, join(folder, 'none'));
    await expect(missing).rejects.toThrow('on the node of that session');
    await copyHome(undefined, join(folder, 'none'));
    expect(existsSync(join(folder, 'none'))).toBe(false);
  });
});
