import { PageHeader } from '../../ui/layout.tsx';

export function Runs({ id }: { readonly id: string | undefined }) {
  return <PageHeader title="Runs">{id}</PageHeader>;
}
