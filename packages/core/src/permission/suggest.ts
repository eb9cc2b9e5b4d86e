import type { ToolPermission } from '@relay/protocol';
import type { Tool } from '../ports/index.ts';

/** The rule that a tool proposes for calls like this one. One that fails at it proposes none. */
export function suggestedRule(
  tool: Pick<Tool, 'derivePermission'> | undefined,
  params: unknown,
): ToolPermission | undefined {
  if (typeof params !== 'object' || params === null) return undefined;
  try {
    // A copy: what was shown must not be changed by whoever looks at it.
    return tool?.derivePermission?.(structuredClone(params) as Record<string, unknown>);
  } catch {
    return undefined;
  }
}
