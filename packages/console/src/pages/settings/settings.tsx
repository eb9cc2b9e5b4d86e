import { PageHeader } from '../../ui/layout.tsx';

export function Settings({ section }: { readonly section: string | undefined }) {
  return <PageHeader title="Settings">{section}</PageHeader>;
}
