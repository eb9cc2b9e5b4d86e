type OptionalKeys<T> = { [K in keyof T]-?: undefined extends T[K] ? K : never }[keyof T];

/** `T` with every property that may be `undefined` made optional instead. */
export type Defined<T extends object> = {
  [K in Exclude<keyof T, OptionalKeys<T>>]: T[K];
} & {
  [K in OptionalKeys<T>]?: Exclude<T[K], undefined>;
} extends infer Flat
  ? { [K in keyof Flat]: Flat[K] }
  : never;

/**
 * A copy of the object without the keys whose value is `undefined`, in the same order. Avoid it in
 * code that runs once per token. `Literal` makes TypeScript infer `'ok'` rather than `string` and,
 * unlike `const`, leaves arrays mutable.
 */
export function defined<
  Literal extends string | number | boolean,
  T extends Record<string, Literal | {} | null | undefined>,
>(properties: T): Defined<T> {
  const kept: Partial<T> = {};
  for (const key in properties) {
    if (properties[key] !== undefined) kept[key] = properties[key];
  }
  return kept as Defined<T>;
}
