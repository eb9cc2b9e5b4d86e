/**
 * The names of MCP tools: `<server>_<tool>`, in characters that every provider accepts. The name of a
 * server has no "_", so tools of two servers never have the same name.
 */
import { createHash } from 'node:crypto';
import { nearestTo } from '@relay/protocol/display';
import { checkToolName } from '../registry.ts';

const maxChars = 64;
const hashChars = 8;

/** Stable, because rules and grants refer to it. */
export function qualifiedName(server: string, tool: string): string {
  const name = `${server}_${tool.replaceAll(/[^a-zA-Z0-9_-]/g, '_')}`;
  if (name.length <= maxChars) return name;
  const hash = createHash('sha256').update(tool).digest('hex').slice(0, hashChars);
  return `${name.slice(0, maxChars - hashChars - 1)}_${hash}`;
}

/** The server part of a tool name. */
export function serverOf(name: string): string | undefined {
  const end = name.indexOf('_');
  return end > 0 ? name.slice(0, end) : undefined;
}

const maxOffered = 8;

/** What to write instead of a name that does not exist. */
export function suggestion(name: string, known: readonly string[]): string {
  const near =
    nearestTo(name, known, Math.max(2, Math.floor(name.length / 4))) ??
    known.find((each) => each.includes(name) || name.includes(each));
  if (near !== undefined) return `did you mean ${near}?`;
  if (known.length === 0) return 'it offers no tools';
  const more = known.length - maxOffered;
  return `it offers ${known.slice(0, maxOffered).join(', ')}${more > 0 ? ` and ${more} more` : ''}`;
}

/** Whether one of these servers may have a tool of this name, according to its settings. */
export function mayOffer(
  servers: Readonly<Record<string, { readonly tools?: readonly string[] }>>,
  name: string,
): boolean {
  const server = serverOf(name);
  if (server === undefined || !Object.hasOwn(servers, server)) return false;
  const { tools } = servers[server] ?? {};
  return tools?.some((tool) => qualifiedName(server, tool) === name) ?? true;
}

interface NamedTool<Listed> {
  readonly name: string;
  readonly listed: Listed;
}

interface ToolNameMapping<Listed> {
  readonly named: readonly NamedTool<Listed>[];
  /** Messages about tools without a usable name. */
  readonly refused: readonly string[];
}

/** Maps tools to names. A name that several tools would have is refused, as rules would be ambiguous. */
export function mapToolNames<Listed extends { readonly name: string }>(
  server: string,
  all: readonly Listed[],
): ToolNameMapping<Listed> {
  const byName = Map.groupBy(all, ({ name }) => qualifiedName(server, name));
  const named: NamedTool<Listed>[] = [];
  const refused: string[] = [];
  for (const [name, [listed, ...others]] of byName) {
    const problem =
      others.length > 0 ? `${others.length + 1} tools would have this name` : problemWithName(name);
    if (problem !== undefined || listed === undefined) refused.push(`${name}: ${problem}`);
    else named.push({ name, listed });
  }
  return { named, refused };
}

function problemWithName(name: string): string | undefined {
  try {
    checkToolName(name);
    return undefined;
  } catch (error) {
    return (error as Error).message;
  }
}
