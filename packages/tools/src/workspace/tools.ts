import type { Tool } from '@relay/core';
import { type BashOptions, createBash } from './bash.ts';
import { createPatch } from './patch.ts';
import { createRead } from './read.ts';

export const workspaceToolNames: readonly string[] = ['bash', 'read', 'patch'];

/** The tools of a tenant that has a workspace. */
export function createWorkspaceTools(options: BashOptions): readonly Tool[] {
  return [createBash(options), createRead(options), createPatch(options)];
}
