/** The standing rules of the tenant: editor, history, tester and grants. */
import { useSearchParams } from 'wouter';
import { Empty } from '../../ui/notice.tsx';
import { PageHeader, Tabs } from '../../ui/layout.tsx';
import { Grants } from './grants.tsx';
import { History } from './history.tsx';
import { RulesEditor } from './rules-editor.tsx';
import { Tester } from './tester.tsx';

const sections = [
  { name: 'rules', label: 'Rules', path: '/policy' },
  { name: 'history', label: 'History', path: '/policy/history' },
  { name: 'tester', label: 'Tester', path: '/policy/tester' },
  { name: 'grants', label: 'Grants', path: '/policy/grants' },
] as const;

export function Policy({ section = 'rules' }: { readonly section: string | undefined }) {
  const [search] = useSearchParams();
  const agent = search.get('agent');
  const query = agent === null ? '' : `?${new URLSearchParams({ agent }).toString()}`;
  return (
    <>
      <PageHeader title="Policy" />
      <Tabs
        label="Parts of the policy"
        tabs={sections.map(({ name, label, path }) => ({
          href: `${path}${name === 'grants' ? '' : query}`,
          label,
          isHere: name === section,
        }))}
      />
      <Part section={section} />
    </>
  );
}

function Part({ section }: { readonly section: string }) {
  switch (section) {
    case 'rules':
      return <RulesEditor />;
    case 'history':
      return <History />;
    case 'tester':
      return <Tester />;
    case 'grants':
      return <Grants />;
    default:
      return <Empty title="The policy has no such part">Choose one above.</Empty>;
  }
}
