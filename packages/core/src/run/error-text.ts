/** What was thrown, in words. Anything can be thrown, even what cannot be turned into a text. */
export function textOfError(thrown: unknown): string {
  try {
    const said: unknown = thrown instanceof Error ? thrown.message || thrown.name : thrown;
    return typeof said === 'string' ? said : (JSON.stringify(said) ?? typeof said);
  } catch {
    return 'Something was thrown that cannot be described';
  }
}
