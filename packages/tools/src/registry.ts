import { handoffToolName, type Tool, type ToolRegistry } from '@relay/core';
import { toolNameForm } from '@relay/protocol';

/** Throws unless all providers accept the name, and it is neither reserved nor inherited by objects. */
export function checkToolName(name: string): void {
  if (!toolNameForm.test(name)) {
    throw new TypeError(
      `Invalid tool name ${JSON.stringify(name)}: use 1 to 64 letters, digits, "_" or "-"`,
    );
  }
  if (name === handoffToolName) {
    throw new TypeError(`The tool name ${name} is reserved`);
  }
  if (name in Object.prototype) throw new TypeError(`The tool name ${name} is reserved`);
}

/** Finds tools by their exact names. */
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
