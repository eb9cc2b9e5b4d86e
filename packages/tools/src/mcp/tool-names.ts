/**
 * What the tools of MCP servers are called here: `<server>_<tool>`, in the letters that every provider
 * takes. A server's name has no "_", so that no two servers share a name of a tool.
 */
import { createHash } from 'node:crypto';
import { checkToolName } from '../registry.ts';

const maxChars = 64;
const hashChars = 8;

/** Always the same for the same tool: rules and grants name it. */
export function qualifiedName(server: string, tool: string): string {
  const name = `${server}_${tool.replaceAll(/[^a-zA-Z0-9_-]/g, '_')}`;
  if (name.length <= maxChars) return name;
  const hash = createHash('sha256').update(tool).digest('hex').slice(0, hashChars);
  return `${name.slice(0, maxChars - hashChars - 1)}_${hash}`;
}

/** The server that a tool of this name would be of. */
export function serverOf(name: string): string | undefined {
  const end = name.indexOf('_');
  return end > 0 ? name.slice(0, end) : undefined;
}

/** Whether one of these servers could have a tool of this name, as far as their settings say. */
export function mayOffer(
  servers: Readonly<Record<string, { readonly tools?: readonly string[] }>>,
  name: string,
): boolean {
  const server = serverOf(name);
  if (server === undefined || !Object.hasOwn(servers, server)) return false;
  const { tools } = servers[server] ?? {};
  return tools?.some((tool) => qualifiedName(server, tool) === name) ?? true;
}

export interface Named<Listed> {
  readonly name: string;
  readonly listed: Listed;
}

export interface Naming<Listed> {
  readonly named: readonly Named<Listed>[];
  readonly refused: readonly string[];
}

/**
 * Names for all of them. Where several would have the same one, none gets it: a rule about it could
 * otherwise be meant for another tool.
 */
export function nameAll<Listed extends { readonly name: string }>(
  server: string,
  all: readonly Listed[],
): Naming<Listed> {
  const byName = Map.groupBy(all, ({ name }) => qualifiedName(server, name));
  const named: Named<Listed>[] = [];
  const refused: string[] = [];
  for (const [name, [listed, ...others]] of byName) {
    const problem = others.length > 0 ? `${others.length + 1} tools would have it` : wrong(name);
    if (problem !== undefined || listed === undefined) refused.push(`${name}: ${problem}`);
    else named.push({ name, listed });
  }
  return { named, refused };
}

function wrong(name: string): string | undefined {
  try {
    checkToolName(name);
    return undefined;
  } catch (error) {
    return (error as Error).message;
  }
}
