import { mkdirSync, mkdtempSync, realpathSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';

export interface TestFolder {
  readonly root: string;
  /** Beside the root, and no part of it. */
  readonly outside: string;
  write(path: string, text: string | Buffer): void;
  link(path: string, target: string): void;
  remove(): void;
}

/** A workspace with something secret beside it. */
export function makeFolder(): TestFolder {
  const base = realpathSync(mkdtempSync(join(tmpdir(), 'relay-tools-')));
  const [root, outside] = [join(base, 'ws'), join(base, 'outside')];
  for (const folder of [root, outside]) mkdirSync(folder);
  writeFileSync(join(outside, 'secret.txt'), 'secret\n');
  return {
    root,
    outside,
    write(path, text) {
      mkdirSync(dirname(join(root, path)), { recursive: true });
      writeFileSync(join(root, path), text);
    },
    link(path, target) {
      mkdirSync(dirname(join(root, path)), { recursive: true });
      rmSync(join(root, path), { force: true });
      symlinkSync(target, join(root, path));
    },
    remove: () => rmSync(base, { recursive: true, force: true }),
  };
}
