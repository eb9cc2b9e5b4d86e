/** API keys of model providers. They can be set and deleted, and are never shown. */
import { type Credential, defined } from '@relay/protocol/wire';
import { useMutation } from '@tanstack/react-query';
import { Plus } from 'lucide-react';
import { useState } from 'react';
import { client } from '../../api/client.ts';
import { useListing } from '../../api/listing.ts';
import { queries } from '../../api/queries.ts';
import { SafeText } from '../../text/safe-text.tsx';
import { Button } from '../../ui/button.tsx';
import { Field, Input } from '../../ui/form.tsx';
import { Empty, ErrorNotice, errorText, Loading, Note } from '../../ui/notice.tsx';
import { Confirm, FormDialog } from '../../ui/overlay.tsx';
import { toast } from '../../ui/toast.tsx';
import { Time } from '../../ui/values.tsx';

/** `new`, or the one that is replaced. */
type Editing = Credential | 'new';

export function Credentials() {
  const credentials = useListing(['credentials'], (options) => client.credentials.list(options));
  const [editing, setEditing] = useState<Editing>();
  const [deleting, setDeleting] = useState<Credential>();
  const remove = useMutation({
    mutationFn: (provider: string) => client.credentials.delete(provider),
    onSuccess: () => {
      setDeleting(undefined);
      toast('The credential is deleted.');
      void queries.invalidateQueries({ queryKey: ['credentials'] });
    },
    onError: (error) => toast(errorText(error), 'error'),
  });
  const { items } = credentials;
  const add = (
    <Button kind="primary" onClick={() => setEditing('new')}>
      <Plus aria-hidden size={14} /> Add a provider
    </Button>
  );
  return (
    <>
      {items === undefined ? (
        credentials.error === null ? (
          <Loading />
        ) : (
          <ErrorNotice
            title="The credentials could not be loaded"
            error={credentials.error}
            onRetry={credentials.reload}
          />
        )
      ) : items.length === 0 ? (
        <Empty title="No provider has a key" action={add}>
          With the key of a provider, runs can use its models. Until then the model demo works
          without one.
        </Empty>
      ) : (
        <>
          <div className="flex flex-wrap items-center justify-between gap-2">
            <p className="text-sm text-muted">
              Keys are encrypted when they are stored, and cannot be read again.
            </p>
            {add}
          </div>
          <ul
            aria-label="Credentials"
            className="flex flex-col rounded border border-line bg-surface"
          >
            {items.map((credential) => (
              <li
                key={credential.provider}
                className="flex flex-wrap items-center gap-x-4 gap-y-2 border-b border-line px-4 py-2.5 last:border-b-0"
              >
                <div className="flex min-w-0 flex-1 basis-60 flex-col gap-0.5">
                  <span className="text-sm font-medium">{credential.provider}</span>
                  <span className="flex flex-wrap gap-x-3 text-xs text-muted">
                    <span className="font-mono">…{credential.last4}</span>
                    {credential.label === null ? null : <SafeText text={credential.label} />}
                    {credential.baseUrl === undefined ? null : (
                      <span className="break-all">
                        <SafeText text={credential.baseUrl} />
                      </span>
                    )}
                    {credential.source === 'environment' ? (
                      <span>from the server’s environment</span>
                    ) : (
                      <span>
                        set <Time at={credential.updatedAt} />
                      </span>
                    )}
                  </span>
                </div>
                <Button size="sm" onClick={() => setEditing(credential)}>
                  Replace
                </Button>
                {credential.source === 'environment' ? null : (
                  <Button size="sm" kind="danger" onClick={() => setDeleting(credential)}>
                    Delete
                  </Button>
                )}
              </li>
            ))}
          </ul>
        </>
      )}
      {editing === undefined ? null : (
        <Edit editing={editing} onClose={() => setEditing(undefined)} />
      )}
      <Confirm
        open={deleting !== undefined}
        onOpenChange={() => setDeleting(undefined)}
        title={`Delete the key of ${deleting?.provider ?? ''}?`}
        action="Delete the key"
        isBusy={remove.isPending}
        onConfirm={() => {
          if (deleting !== undefined) remove.mutate(deleting.provider);
        }}
      >
        Runs that use its models fail from their next model call on, unless the server itself has a
        key for it.
      </Confirm>
    </>
  );
}

function Edit({ editing, onClose }: { readonly editing: Editing; readonly onClose: () => void }) {
  const known = editing === 'new' ? undefined : editing;
  const [provider, setProvider] = useState(known?.provider ?? '');
  const [apiKey, setApiKey] = useState('');
  const [label, setLabel] = useState(known?.label ?? '');
  const [baseUrl, setBaseUrl] = useState(known?.baseUrl ?? '');
  const put = useMutation({
    mutationFn: () =>
      client.credentials.put(provider.trim(), {
        apiKey: apiKey.trim(),
        ...defined({
          label: label.trim() === '' ? undefined : label.trim(),
          baseUrl: baseUrl.trim() === '' ? undefined : baseUrl.trim(),
        }),
      }),
    onSuccess: (saved) => {
      toast(`The key of ${saved.provider} is set.`);
      void queries.invalidateQueries({ queryKey: ['credentials'] });
      onClose();
    },
  });
  return (
    <FormDialog
      title={known === undefined ? 'Add a provider' : `Replace the key of ${known.provider}`}
      action="Set the key"
      isDisabled={put.isPending}
      onSubmit={() => put.mutate()}
      onClose={onClose}
    >
      <Field label="Provider" hint="Such as openai, anthropic or google">
        {(field) => (
          <Input
            {...field}
            required
            pattern="[a-z0-9\-]{1,32}"
            title="1 to 32 lowercase letters, digits or hyphens"
            autoComplete="off"
            readOnly={known !== undefined}
            value={provider}
            onChange={(event) => setProvider(event.target.value)}
          />
        )}
      </Field>
      <Field label="API key" hint="It is encrypted, and never shown again">
        {(field) => (
          <Input
            {...field}
            type="password"
            required
            autoComplete="off"
            spellCheck={false}
            value={apiKey}
            onChange={(event) => setApiKey(event.target.value)}
          />
        )}
      </Field>
      <Field label="Label" hint="Optional, such as the name of the account">
        {(field) => (
          <Input
            {...field}
            maxLength={128}
            value={label}
            onChange={(event) => setLabel(event.target.value)}
          />
        )}
      </Field>
      <Field label="Base URL" hint="Only for providers that Relay does not know">
        {(field) => (
          <Input
            {...field}
            type="url"
            placeholder="https://…"
            value={baseUrl}
            onChange={(event) => setBaseUrl(event.target.value)}
          />
        )}
      </Field>
      {put.error === null ? null : <Note tone="failed">{errorText(put.error)}</Note>}
    </FormDialog>
  );
}
