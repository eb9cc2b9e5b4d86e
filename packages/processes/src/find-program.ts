import { constants } from 'node:fs';
import { access } from 'node:fs/promises';
import { isAbsolute, join } from 'node:path';

/** The file of a program in the first of some folders that has it; undefined if none does. */
export async function findProgram(
  program: string,
  folders: readonly string[],
): Promise<string | undefined> {
  const files = isAbsolute(program) ? [program] : folders.map((folder) => join(folder, program));
  for (const file of files) if (await isExecutable(file)) return file;
  return undefined;
}

function isExecutable(file: string): Promise<boolean> {
  return access(file, constants.X_OK).then(
    () => true,
    () => false,
  );
}
