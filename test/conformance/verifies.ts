import { requirements, type RequirementId } from './requirements.ts';

const known: ReadonlySet<string> = new Set(requirements.map(({ id }) => id));

/**
 * Says which requirements a test verifies: the first line of its body, with literal ids, since
 * coverage is counted from the source text. Throws on an id that no list has.
 */
export function verifies(...ids: RequirementId[]): void {
  const unknown = ids.filter((id) => !known.has(id));
  if (unknown.length > 0) {
    throw new Error(`No such requirement: ${unknown.join(', ')}`);
  }
}
