/** The text of an own, scalar parameter; undefined for all that no pattern may match. */
export function scalarText(
  values: Readonly<Record<string, unknown>> | undefined,
  name: string,
): string | undefined {
  if (typeof values !== 'object' || values === null) return undefined;
  if (!Object.hasOwn(values, name)) return undefined;
  const value = values[name];
  switch (typeof value) {
    case 'string':
      return value;
    case 'number':
    case 'boolean':
    case 'bigint':
      return String(value);
    default:
      return undefined;
  }
}
