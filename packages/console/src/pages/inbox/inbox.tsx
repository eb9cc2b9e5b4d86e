import { PageHeader } from '../../ui/layout.tsx';

export function Inbox({ id }: { readonly id: string | undefined }) {
  return <PageHeader title="Inbox">{id}</PageHeader>;
}
