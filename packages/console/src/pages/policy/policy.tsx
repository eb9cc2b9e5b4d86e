import { PageHeader } from '../../ui/layout.tsx';

export function Policy({ section }: { readonly section: string | undefined }) {
  return <PageHeader title="Policy">{section}</PageHeader>;
}
