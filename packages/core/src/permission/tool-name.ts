/** The tool of a rule: an exact name, never a pattern. */
import { toolNameForm } from '@relay/protocol';
import type { Tool } from '../ports/tool.ts';

/** Before the name of an action, where rules name it. */
export const actionPrefix = 'action:';

/** Why no tool can have this name; undefined if one can. A rule with it would never match. */
export function checkRuleTool(name: string): string | undefined {
  if (toolNameForm.test(name)) return undefined;
  if (name.startsWith(actionPrefix) && toolNameForm.test(name.slice(actionPrefix.length))) {
    return undefined;
  }
  const shown = JSON.stringify(name.slice(0, 100));
  const trimmed = name.trim();
  if (toolNameForm.test(trimmed)) return `No tool is named ${shown}; did you mean "${trimmed}"?`;
  return (
    `No tool is named ${shown}: names are exact, not patterns, and have 1 to 64 letters, digits, ` +
    '"_" or "-". Write a rule for each tool; without params it matches all calls of the tool'
  );
}

/** A note about a name that no registered tool has; undefined if there is such a tool. */
export function unknownToolNote(tools: readonly Tool[], name: string): string | undefined {
  if (tools.some((tool) => tool.name === name)) return undefined;
  const similar = tools.find((tool) => isSimilar(tool.name, name));
  return similar === undefined
    ? 'No tool of this name is registered.'
    : `No tool of this name is registered; did you mean \`${similar.name}\`?`;
}

/** Differs in case or punctuation, or lacks the name of the MCP server. */
export function isSimilar(known: string, name: string): boolean {
  const [full, given] = [plain(known), plain(name)];
  return given !== '' && (full === given || plain(known.slice(known.indexOf('_') + 1)) === given);
}

function plain(name: string): string {
  return name.toLowerCase().replaceAll(/[^a-z0-9]/g, '');
}
