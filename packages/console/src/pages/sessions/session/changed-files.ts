/** The files that a session has changed, from the events of its journal. */
import type { StoredSessionEvent } from '@relay/sdk';

type FileOperation = 'create' | 'update' | 'delete';

interface FileChange {
  readonly seq: number;
  readonly at: string;
  readonly operation: FileOperation;
  /** Unified, if the session reports one. */
  readonly diff?: string | undefined;
  /** Parts of the file that were replaced, one after the other. */
  readonly edits?: readonly Edit[] | undefined;
}

interface Edit {
  readonly before: string;
  readonly after: string;
}

export interface ChangedFile {
  readonly path: string;
  /** What the changes together have done to the file. */
  readonly operation: FileOperation | 'none';
  /** Oldest first. */
  readonly changes: readonly FileChange[];
}

/** The last changed first. */
export function changedFiles(events: readonly StoredSessionEvent[]): readonly ChangedFile[] {
  const files = new Map<string, FileChange[]>();
  /** Calls of `patch` that have not ended, oldest first. */
  const open: Patch[] = [];
  const add = (path: string, change: FileChange) => {
    const changes = files.get(path) ?? [];
    // Set again, so that the file which was changed last is the last one.
    files.delete(path);
    files.set(path, [...changes, change]);
  };
  for (const event of events) {
    const { seq, at } = event;
    if (event.type === 'file.changed') {
      const { path, operation, diff } = event;
      add(path, { seq, at, operation, diff });
    } else if (event.type === 'tool.called' && event.tool === 'patch') {
      const patch = patchOf(event.input);
      if (patch !== undefined) open.push({ ...patch, run: event.run });
    } else if (
      (event.type === 'tool.completed' || event.type === 'tool.failed') &&
      event.tool === 'patch'
    ) {
      const result = event.type === 'tool.completed' ? resultOf(event.output) : undefined;
      const index = open.findIndex(
        ({ run, path }) => run === event.run && (result === undefined || result.path === path),
      );
      const [patch] = index < 0 ? [] : open.splice(index, 1);
      if (patch === undefined || result === undefined) continue;
      const operation = result.isNew ? 'create' : 'update';
      add(patch.path, { seq, at, operation, diff: patch.diff, edits: patch.edits });
    }
  }
  return [...files]
    .map(([path, changes]) => ({ path, operation: together(changes), changes }))
    .toReversed();
}

function together(changes: readonly FileChange[]): ChangedFile['operation'] {
  const isNew = changes[0]?.operation === 'create';
  const isDeleted = changes.at(-1)?.operation === 'delete';
  if (isDeleted) return isNew ? 'none' : 'delete';
  return isNew ? 'create' : 'update';
}

interface Patch extends Pick<FileChange, 'diff' | 'edits'> {
  readonly path: string;
  readonly run?: string | undefined;
}

/** The arguments of Relay's own tool `patch`: sessions of its agents report calls instead of files. */
function patchOf(input: unknown): Patch | undefined {
  const { filePath, diff, edits } = fieldsOf(input);
  if (typeof filePath !== 'string') return undefined;
  if (typeof diff === 'string') return { path: filePath, diff };
  if (!Array.isArray(edits)) return undefined;
  return { path: filePath, edits: edits.map(editOf) };
}

function editOf(edit: unknown): Edit {
  const { old: before, new: after } = fieldsOf(edit);
  return {
    before: typeof before === 'string' ? before : '',
    after: typeof after === 'string' ? after : '',
  };
}

function resultOf(output: unknown): { readonly path: unknown; readonly isNew: boolean } {
  const { path, created } = fieldsOf(output);
  return { path, isNew: created === true };
}

function fieldsOf(value: unknown): Readonly<Record<string, unknown>> {
  return typeof value === 'object' && value !== null ? { ...value } : {};
}
