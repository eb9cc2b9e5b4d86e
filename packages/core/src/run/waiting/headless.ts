import type { LiveRun } from '../live-run.ts';

/** Whether nobody is there whom a run could ask: not for consent, an answer or an outcome. */
export function isHeadless({
  engine,
  ref,
  spec,
}: Pick<LiveRun, 'engine' | 'ref' | 'spec'>): boolean {
  const permissions = engine.rules?.(ref)?.current() ?? spec.permissions;
  return permissions.headless === true;
}
