import { PageHeader } from '../../ui/layout.tsx';

export function Sessions({ id }: { readonly id: string | undefined }) {
  return <PageHeader title="Sessions">{id}</PageHeader>;
}
