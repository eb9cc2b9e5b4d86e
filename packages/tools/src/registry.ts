import type { Tool, ToolRegistry } from '@relay/core';
import { checkToolName } from './tool-name.ts';

/** Tools by their exact names. */
export function createToolRegistry(tools: readonly Tool[]): ToolRegistry {
  const byName = new Map<string, Tool>();
  for (const tool of tools) {
    checkToolName(tool.name);
    if (byName.has(tool.name)) throw new TypeError(`Two tools are named ${tool.name}`);
    byName.set(tool.name, tool);
  }
  const all = [...byName.values()];
  return { find: (name) => byName.get(name), list: () => all };
}
