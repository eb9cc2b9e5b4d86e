/** The person who did something: an owner, or the id of a key that has none, which is shown by its name. */
import { useQuery } from '@tanstack/react-query';
import { SafeText } from '../text/safe-text.tsx';
import { shortId } from '../ui/values.tsx';
import { useAccount, useMay } from './account.tsx';
import { client } from './client.ts';

const idOfKey = /^[0-9a-f-]{36}$/;

/** Who may not list keys knows only the own one. */
export function Person({ id }: { readonly id: string }) {
  const isId = idOfKey.test(id);
  const mayList = useMay('admin');
  const { data: account } = useAccount();
  const { data: names } = useQuery({
    queryKey: ['keys', 'names'],
    queryFn: async ({ signal }) => {
      const found = new Map<string, string>();
      for await (const { id: key, name, owner } of client.keys.list({ signal })) {
        found.set(key, owner ?? name);
      }
      return found;
    },
    enabled: isId && mayList,
  });
  const own = account?.id === id || account?.parent === id ? account.name : undefined;
  const name = isId ? (names?.get(id) ?? own) : id;
  return (
    <span title={isId ? `Key ${id}` : undefined}>
      <SafeText text={name ?? shortId(id)} maxLength={200} />
    </span>
  );
}
