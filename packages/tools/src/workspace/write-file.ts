/** A file that is there as a whole or not at all, and is on the disk when it is said to be. */
import { randomBytes } from 'node:crypto';
import { constants } from 'node:fs';
import { type FileHandle, open, rename, rm } from 'node:fs/promises';
import { basename, dirname } from 'node:path';
import { openFolder, within } from './place.ts';

const { O_CREAT, O_EXCL, O_NOFOLLOW, O_WRONLY } = constants;

interface NewText {
  readonly text: string;
  /** Of the file that it takes the place of. */
  readonly mode?: number;
  /** Looked at last, before it counts: whoever throws here leaves everything as it was. */
  readonly check: () => Promise<void>;
}

export async function writeWhole(place: string, { text, mode, check }: NewText): Promise<void> {
  const folderPlace = dirname(place);
  const folder = await openFolder(folderPlace);
  const name = basename(place);
  const temporary = within(folder, folderPlace, `.relay-${randomBytes(8).toString('hex')}.tmp`);
  try {
    await writeTemporary(temporary, text, mode);
    await check();
    await rename(temporary, within(folder, folderPlace, name));
    await folder.sync();
  } catch (error) {
    await rm(temporary, { force: true }).catch(() => undefined);
    throw error;
  } finally {
    await folder.close();
  }
}

async function writeTemporary(path: string, text: string, mode: number | undefined): Promise<void> {
  const file: FileHandle = await open(path, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW, 0o666);
  try {
    await file.writeFile(text);
    if (mode !== undefined) await file.chmod(mode & 0o777);
    await file.sync();
  } finally {
    await file.close();
  }
}
