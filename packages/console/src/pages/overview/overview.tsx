import { PageHeader } from '../../ui/layout.tsx';

export function Overview() {
  return <PageHeader title="Overview" />;
}
