/** The account of the person, and what an administrator sets for the tenant. */
import type { Scope } from '@relay/protocol/wire';
import { useMay } from '../../api/account.tsx';
import { PageBody, PageHeader, Tabs } from '../../ui/layout.tsx';
import { Empty } from '../../ui/notice.tsx';
import { Account } from './account.tsx';
import { Budgets } from './budgets.tsx';
import { Credentials } from './credentials.tsx';
import { Keys } from './keys.tsx';
import { Memories } from './memories.tsx';
import { PauseAndStop } from './pause.tsx';
import { Webhooks } from './webhooks.tsx';

interface Part {
  readonly name: string;
  readonly label: string;
  /** Needed to see it. */
  readonly scope: Scope | undefined;
  readonly Page: () => React.ReactNode;
}

const parts: readonly Part[] = [
  { name: 'account', label: 'Account', scope: undefined, Page: Account },
  { name: 'keys', label: 'Keys', scope: 'admin', Page: Keys },
  { name: 'credentials', label: 'Credentials', scope: 'admin', Page: Credentials },
  { name: 'webhooks', label: 'Webhooks', scope: 'admin', Page: Webhooks },
  { name: 'memories', label: 'Memories', scope: 'read', Page: Memories },
  { name: 'budgets', label: 'Budgets', scope: 'admin', Page: Budgets },
  { name: 'pause', label: 'Pause and stop', scope: 'admin', Page: PauseAndStop },
];

export function Settings({ section = 'account' }: { readonly section: string | undefined }) {
  const part = parts.find(({ name }) => name === section);
  return (
    <>
      <PageHeader title="Settings" />
      <Tabs
        label="Parts of the settings"
        tabs={parts.map(({ name, label }) => ({
          href: name === 'account' ? '/settings' : `/settings/${name}`,
          label,
          isHere: name === section,
        }))}
      />
      {part === undefined ? (
        <Empty title="The settings have no such part">Choose one above.</Empty>
      ) : (
        <PageBody>
          <Allowed {...part} />
        </PageBody>
      )}
    </>
  );
}

/** What a person may not see says so, instead of failing. */
function Allowed({ label, scope = 'read', Page }: Part) {
  const isAllowed = useMay(scope);
  if (isAllowed) return <Page />;
  return (
    <Empty title={`${label}: not available`}>
      Your key does not have the scope {scope}. Ask an administrator, or sign in with another key.
    </Empty>
  );
}
