import { PageHeader } from '../../ui/layout.tsx';

export function Audit() {
  return <PageHeader title="Audit" />;
}
