/** The list of runs, or one of them. */
import { RunList } from './list/run-list.tsx';
import { RunPage } from './run/run-page.tsx';

export function Runs({ id }: { readonly id: string | undefined }) {
  return id === undefined ? <RunList /> : <RunPage key={id} id={id} />;
}
