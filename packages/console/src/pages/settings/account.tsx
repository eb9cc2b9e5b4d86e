/** Who is signed in, until when, and what they have chosen for this browser. */
import { useMutation } from '@tanstack/react-query';
import { useState } from 'react';
import { useAccount } from '../../api/account.tsx';
import { signOut } from '../../frame/sign-out.ts';
import { type Preferences, setPreferences, usePreferences } from '../../preferences.ts';
import { SafeText } from '../../text/safe-text.tsx';
import { Button } from '../../ui/button.tsx';
import { Field, Select, Switch } from '../../ui/form.tsx';
import { Facts, Section } from '../../ui/layout.tsx';
import { Loading, Note } from '../../ui/notice.tsx';
import { formatDateTime, formatDuration, Id, useNow } from '../../ui/values.tsx';
import { scopeWords } from './words.ts';

export function Account() {
  const { data: account } = useAccount();
  const now = useNow();
  const leave = useMutation({ mutationFn: signOut });
  if (account === undefined) return <Loading />;
  const { name, owner, role, scopes, groups, tenant, expiresAt, version, id } = account;
  return (
    <>
      <Section
        title="Signed in"
        actions={
          <Button disabled={leave.isPending} onClick={() => leave.mutate()}>
            Sign out
          </Button>
        }
      >
        <Facts
          facts={[
            ['Person', <SafeText key="owner" text={owner ?? name} />],
            ['Key', <SafeText key="name" text={name} />],
            ['Tenant', <SafeText key="tenant" text={tenant.name} />],
            ['Role', role ?? 'none of its own'],
            [
              'You may',
              <ul key="scopes" className="flex flex-col gap-1">
                {scopes.map((scope) => (
                  <li key={scope}>
                    {scopeWords[scope]}{' '}
                    <code className="font-mono text-xs text-muted">{scope}</code>
                  </li>
                ))}
              </ul>,
            ],
            ['Groups', groups.length === 0 ? undefined : groups.join(', ')],
            [
              'Until',
              expiresAt === undefined
                ? 'it is revoked'
                : `${formatDateTime(expiresAt)}, in ${formatDuration(Date.parse(expiresAt) - now)}`,
            ],
            ['Sign-in', <Id key="id" id={id} label="id of the sign-in" />],
            ['Server', `Relay ${version}`],
          ]}
        />
      </Section>
      <ThisBrowser />
    </>
  );
}

function ThisBrowser() {
  const { theme, shortcuts } = usePreferences();
  return (
    <Section title="This browser">
      <div className="flex flex-col items-start gap-4">
        <Field label="Theme">
          {(field) => (
            <Select
              {...field}
              value={theme}
              onChange={(event) =>
                setPreferences({ theme: event.target.value as Preferences['theme'] })
              }
            >
              <option value="system">Like the system</option>
              <option value="light">Light</option>
              <option value="dark">Dark</option>
            </Select>
          )}
        </Field>
        <div className="flex flex-col gap-1">
          <Switch
            label="Single keys are shortcuts"
            checked={shortcuts}
            onChange={(next) => setPreferences({ shortcuts: next })}
          />
          <p className="text-xs text-muted">
            Such as A to approve in the inbox. “?” shows those of a page. Ctrl K always works.
          </p>
        </div>
        <Notifications />
      </div>
    </Section>
  );
}

function Notifications() {
  const { notifications } = usePreferences();
  const isSupported = 'Notification' in window;
  const [permission, setPermission] = useState(
    isSupported ? Notification.permission : ('denied' as const),
  );
  const change = async (isOn: boolean) => {
    if (isOn && permission === 'default') {
      const answer = await Notification.requestPermission();
      setPermission(answer);
      if (answer !== 'granted') return;
    }
    setPreferences({ notifications: isOn });
  };
  return (
    <div className="flex flex-col gap-1">
      <Switch
        label="Notify me about new approvals"
        checked={notifications && permission === 'granted'}
        disabled={permission === 'denied'}
        onChange={(next) => void change(next)}
      />
      <p className="text-xs text-muted">While a page of the console is open, and not in front.</p>
      {permission === 'denied' ? (
        <Note tone="ended">
          {isSupported
            ? 'The browser does not allow notifications of this page. Its site settings change that.'
            : 'This browser has no notifications for pages over plain HTTP.'}
        </Note>
      ) : null}
    </div>
  );
}
