/** API keys, sign-ins to the console and login links of the tenant. */
import {
  type ApiKey,
  type ApiKeyBody,
  defined,
  type Role,
  roleNames,
  type Scope,
  scopes as allScopes,
  scopesOfRole,
} from '@relay/protocol/wire';
import { useMutation } from '@tanstack/react-query';
import { Plus } from 'lucide-react';
import { useState } from 'react';
import { useAccount } from '../../api/account.tsx';
import { client } from '../../api/client.ts';
import { useListing } from '../../api/listing.ts';
import { queries } from '../../api/queries.ts';
import { SafeText } from '../../text/safe-text.tsx';
import { Button } from '../../ui/button.tsx';
import { cx } from '../../ui/cx.ts';
import { Field, Input, Select, Switch } from '../../ui/form.tsx';
import { ErrorNotice, errorText, Loading, Note } from '../../ui/notice.tsx';
import { Confirm, Dialog, FormDialog } from '../../ui/overlay.tsx';
import { ValidityBadge } from '../../ui/state.tsx';
import { toast } from '../../ui/toast.tsx';
import { Ago, Id, Time, useNow } from '../../ui/values.tsx';
import { SecretOnce } from './secret-once.tsx';
import { roleWords, scopeWords, statusOfKey } from './words.ts';

type NewKey = ApiKey & { readonly apiKey: string };

export function Keys() {
  const keys = useListing(['keys'], (options) => client.keys.list(options));
  const [isCreating, setCreating] = useState(false);
  const [isAll, setAll] = useState(false);
  const [made, setMade] = useState<NewKey>();
  const now = useNow();
  const shown = keys.items?.filter((key) => isAll || statusOfKey(key, now) === 'active');
  const onMade = (key: NewKey) => {
    setCreating(false);
    setMade(key);
    void queries.invalidateQueries({ queryKey: ['keys'] });
  };
  return (
    <>
      <div className="flex flex-wrap items-center justify-between gap-2">
        <p className="text-sm text-muted">
          Programs use API keys; people sign in here with theirs. A sign-in ends with its key.
        </p>
        <Button kind="primary" onClick={() => setCreating(true)}>
          <Plus aria-hidden size={14} /> Create a key
        </Button>
      </div>
      <Switch label="Show ended ones" checked={isAll} onChange={setAll} />
      {shown === undefined ? (
        keys.error === null ? (
          <Loading />
        ) : (
          <ErrorNotice
            title="The keys could not be loaded"
            error={keys.error}
            onRetry={keys.reload}
          />
        )
      ) : (
        <ul aria-label="Keys" className="flex flex-col rounded border border-line bg-surface">
          {shown.map((key) => (
            <KeyRow key={key.id} apiKey={key} onMade={onMade} />
          ))}
        </ul>
      )}
      {keys.hasMore ? (
        <div>
          <Button disabled={keys.isLoadingMore} onClick={keys.loadMore}>
            Show more
          </Button>
        </div>
      ) : null}
      {isCreating ? <CreateKey onMade={onMade} onClose={() => setCreating(false)} /> : null}
      {made === undefined ? null : (
        <SecretOnce
          title={`The key ${made.name}`}
          label="API key"
          secret={made.apiKey}
          onClose={() => setMade(undefined)}
        >
          <p className="text-muted">
            Send it as <code className="font-mono">Authorization: Bearer …</code>, or sign in to the
            console with it.
          </p>
        </SecretOnce>
      )}
    </>
  );
}

const kindWords: Readonly<Record<ApiKey['kind'], string>> = {
  api: 'API key',
  console: 'Console sign-in',
  link: 'Login link',
};

interface KeyRowProps {
  readonly apiKey: ApiKey;
  readonly onMade: (key: NewKey) => void;
}

function KeyRow({ apiKey, onMade }: KeyRowProps) {
  const { data: account } = useAccount();
  const now = useNow();
  const [asked, setAsked] = useState<'revoke' | 'rotate'>();
  const { id, kind, name, owner, role, scopes, groups, createdAt, expiresAt, lastUsedAt } = apiKey;
  const status = statusOfKey(apiKey, now);
  const isOwn = account?.id === id || account?.parent === id;
  const revoke = useMutation({
    mutationFn: () => client.keys.revoke(id),
    onSuccess: () => {
      setAsked(undefined);
      toast(kind === 'console' ? 'The sign-in has ended.' : `The key ${name} is revoked.`);
      void queries.invalidateQueries({ queryKey: ['keys'] });
      // If it was one's own, this page finds out at once.
      if (isOwn) void queries.invalidateQueries({ queryKey: ['account'] });
    },
    onError: (error) => toast(errorText(error), 'error'),
  });
  return (
    <li className="flex flex-wrap items-start gap-x-4 gap-y-2 border-b border-line px-4 py-2.5 last:border-b-0">
      <div className="flex min-w-0 flex-1 basis-72 flex-col gap-1">
        <div className="flex min-w-0 flex-wrap items-center gap-2 text-sm">
          <span className="min-w-0 font-medium break-words">
            <SafeText text={name} />
          </span>
          <span className="text-muted">{kindWords[kind]}</span>
          {isOwn ? (
            <span className="text-muted">
              {account?.id === id ? '(this sign-in)' : '(your key)'}
            </span>
          ) : null}
        </div>
        <div className="flex flex-wrap items-center gap-x-3 gap-y-0.5 text-xs text-muted">
          {owner === undefined ? null : (
            <span>
              of <SafeText text={owner} />
            </span>
          )}
          <span>{role ?? scopes.join(', ')}</span>
          {groups.length === 0 ? null : <span>groups {groups.join(', ')}</span>}
          <span>
            created <Time at={createdAt} />
          </span>
          <span>
            {lastUsedAt === undefined ? (
              'not used'
            ) : (
              <>
                used <Ago at={lastUsedAt} />
              </>
            )}
          </span>
          {expiresAt === undefined ? null : (
            <span>
              {status === 'expired' ? 'expired' : 'ends'} <Time at={expiresAt} />
            </span>
          )}
          {apiKey.replacedBy === undefined ? null : <span>replaced by rotation</span>}
          <Id id={id} label="key id" />
        </div>
      </div>
      <div className="flex flex-wrap items-center gap-2">
        <ValidityBadge status={status} />
        {status === 'active' && kind === 'api' && apiKey.replacedBy === undefined ? (
          <Button size="sm" aria-label={`Rotate ${name}`} onClick={() => setAsked('rotate')}>
            Rotate
          </Button>
        ) : null}
        {status === 'active' ? (
          <Button
            size="sm"
            kind="danger"
            aria-label={`${kind === 'console' ? 'End' : 'Revoke'} ${name}`}
            onClick={() => setAsked('revoke')}
          >
            {kind === 'console' ? 'End' : 'Revoke'}
          </Button>
        ) : null}
      </div>
      <Confirm
        open={asked === 'revoke'}
        onOpenChange={() => setAsked(undefined)}
        title={kind === 'console' ? 'End this sign-in?' : `Revoke the key ${name}?`}
        action={kind === 'console' ? 'End the sign-in' : 'Revoke the key'}
        isBusy={revoke.isPending}
        onConfirm={() => revoke.mutate()}
      >
        {isOwn ? (
          <strong className="block font-semibold text-failed">
            You are signed in with it: you will be signed out at once.
          </strong>
        ) : null}
        {kind === 'api'
          ? 'Requests with it are refused from now on, its open streams end, and so do the sign-ins to the console with it. Runs that it has started go on. This cannot be undone.'
          : 'Its pages are signed out at once. The API key stays valid.'}
      </Confirm>
      {asked === 'rotate' ? (
        <Rotate
          apiKey={apiKey}
          onClose={() => setAsked(undefined)}
          onMade={(key) => {
            setAsked(undefined);
            onMade(key);
          }}
        />
      ) : null}
    </li>
  );
}

const overlaps = [
  [0, 'At once'],
  [3_600, 'In an hour'],
  [86_400, 'In a day'],
  [7 * 86_400, 'In a week'],
  [30 * 86_400, 'In 30 days'],
] as const;

interface RotateProps {
  readonly apiKey: ApiKey;
  readonly onClose: () => void;
  readonly onMade: (key: NewKey) => void;
}

function Rotate({ apiKey: { id, name }, onClose, onMade }: RotateProps) {
  const [overlapSeconds, setOverlap] = useState(86_400);
  const rotate = useMutation({
    mutationFn: () => client.keys.rotate(id, { overlapSeconds }),
    onSuccess: onMade,
  });
  return (
    <Dialog
      open
      onOpenChange={onClose}
      title={`Rotate the key ${name}`}
      width="sm"
      footer={
        <>
          <Button onClick={onClose}>Cancel</Button>
          <Button kind="primary" disabled={rotate.isPending} onClick={() => rotate.mutate()}>
            Make the new key
          </Button>
        </>
      }
    >
      <div className="flex flex-col gap-3 text-sm">
        <p className="text-muted">
          A new key with the same name, rights, groups and owner takes its place. Both work until
          the old one ends.
        </p>
        <Field label="The old key ends">
          {(field) => (
            <Select
              {...field}
              value={overlapSeconds}
              onChange={(event) => setOverlap(Number(event.target.value))}
            >
              {overlaps.map(([seconds, text]) => (
                <option key={seconds} value={seconds}>
                  {text}
                </option>
              ))}
            </Select>
          )}
        </Field>
        {rotate.error === null ? null : <Note tone="failed">{errorText(rotate.error)}</Note>}
      </div>
    </Dialog>
  );
}

const lifetimes = [
  ['', 'Never'],
  ['1', 'In a day'],
  ['30', 'In 30 days'],
  ['90', 'In 90 days'],
  ['365', 'In a year'],
] as const;

interface CreateKeyProps {
  readonly onMade: (key: NewKey) => void;
  readonly onClose: () => void;
}

function CreateKey({ onMade, onClose }: CreateKeyProps) {
  const { data: account } = useAccount();
  const held = account?.scopes ?? [];
  const mayGive = (needed: readonly Scope[]) => needed.every((scope) => held.includes(scope));
  const [name, setName] = useState('');
  const [role, setRole] = useState<Role | 'custom'>('viewer');
  const [scopes, setScopes] = useState<readonly Scope[]>(['read']);
  const [owner, setOwner] = useState('');
  const [groups, setGroups] = useState('');
  const [days, setDays] = useState('');
  const create = useMutation({
    mutationFn: (body: ApiKeyBody) => client.keys.create(body),
    onSuccess: onMade,
  });
  const submit = () => {
    const named = groups.split(/[,\s]+/).filter((group) => group !== '');
    create.mutate({
      name: name.trim(),
      ...(role === 'custom' ? { scopes: [...scopes] } : { role }),
      ...defined({
        owner: owner.trim() === '' ? undefined : owner.trim(),
        groups: named.length === 0 ? undefined : named,
        expiresAt:
          days === '' ? undefined : new Date(Date.now() + Number(days) * 86_400_000).toISOString(),
      }),
    });
  };
  const isComplete = role !== 'custom' || scopes.length > 0;
  return (
    <FormDialog
      title="Create a key"
      action="Create the key"
      isDisabled={!isComplete || create.isPending}
      onSubmit={submit}
      onClose={onClose}
    >
      <Field label="Name" hint="What it is for">
        {(field) => (
          <Input
            {...field}
            required
            maxLength={64}
            autoComplete="off"
            value={name}
            onChange={(event) => setName(event.target.value)}
          />
        )}
      </Field>
      <fieldset className="flex flex-col gap-1">
        <legend className="mb-1 text-sm font-medium">What it may do</legend>
        {roleNames.toReversed().map((each) => (
          <Choice
            key={each}
            type="radio"
            label={roleWords[each]}
            checked={role === each}
            isAllowed={mayGive(scopesOfRole[each])}
            onChange={() => setRole(each)}
          />
        ))}
        <Choice
          type="radio"
          label="Chosen scopes"
          checked={role === 'custom'}
          isAllowed
          onChange={() => setRole('custom')}
        />
        {role === 'custom' ? (
          <div className="ml-6 flex flex-col gap-1">
            {allScopes.map((scope) => (
              <Choice
                key={scope}
                type="checkbox"
                label={`${scope}: ${scopeWords[scope]}`}
                checked={scopes.includes(scope)}
                isAllowed={mayGive([scope])}
                onChange={() =>
                  setScopes(
                    scopes.includes(scope)
                      ? scopes.filter((each) => each !== scope)
                      : [...scopes, scope],
                  )
                }
              />
            ))}
          </div>
        ) : null}
      </fieldset>
      <div className="grid gap-4 sm:grid-cols-2">
        <Field
          label="Owner"
          hint="The person or program that uses it. Keys of one owner are one person"
        >
          {(field) => (
            <Input
              {...field}
              maxLength={128}
              autoComplete="off"
              value={owner}
              onChange={(event) => setOwner(event.target.value)}
            />
          )}
        </Field>
        <Field label="Groups of approvers" hint="Separated by commas; the policy may name them">
          {(field) => (
            <Input
              {...field}
              autoComplete="off"
              value={groups}
              onChange={(event) => setGroups(event.target.value)}
            />
          )}
        </Field>
        <Field label="Expires">
          {(field) => (
            <Select {...field} value={days} onChange={(event) => setDays(event.target.value)}>
              {lifetimes.map(([value, text]) => (
                <option key={value} value={value}>
                  {text}
                </option>
              ))}
            </Select>
          )}
        </Field>
      </div>
      {create.error === null ? null : <Note tone="failed">{errorText(create.error)}</Note>}
    </FormDialog>
  );
}

interface ChoiceProps {
  readonly type: 'radio' | 'checkbox';
  readonly label: string;
  readonly checked: boolean;
  /** A key cannot be given what one's own lacks. */
  readonly isAllowed: boolean;
  readonly onChange: () => void;
}

function Choice({ type, label, checked, isAllowed, onChange }: ChoiceProps) {
  return (
    <label
      className={cx(
        'flex items-start gap-2 text-sm pointer-coarse:min-h-11 pointer-coarse:items-center',
        !isAllowed && 'text-faint',
      )}
    >
      <input
        type={type}
        className="mt-1 pointer-coarse:mt-0"
        checked={checked}
        disabled={!isAllowed}
        onChange={onChange}
      />
      <span>
        {label}
        {isAllowed ? null : ' (your key does not have these scopes)'}
      </span>
    </label>
  );
}
