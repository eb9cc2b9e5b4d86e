type Stop = () => unknown;

/** Runs every step in order, also after one that fails; then throws what failed. */
export async function stopAll(steps: readonly Stop[]): Promise<void> {
  const errors: unknown[] = [];
  for (const step of steps) {
    try {
      await step();
    } catch (error) {
      errors.push(error);
    }
  }
  if (errors.length === 1) throw errors[0];
  if (errors.length > 1) throw new AggregateError(errors, 'Several parts could not be stopped');
}
