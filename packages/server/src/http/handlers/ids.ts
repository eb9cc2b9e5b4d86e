/** `/v1/ids`: the whole id for a part of it. */
import { type IdKind, mostIds, RelayError } from '@relay/protocol';
import { type Handler, storeOf } from './handler.ts';

/** Only administrators may list these. */
const adminKinds = new Set<IdKind>(['key', 'webhook']);

export const findIds: Handler<'findIds'> = async (call) => {
  const { kind, match } = call.query;
  if (adminKinds.has(kind) && !call.caller.scopes.has('admin')) {
    throw new RelayError('scope_required', `The ids of ${kind}s require the scope admin`);
  }
  const ids = await storeOf(call).findIds(kind, match, mostIds + 1);
  return { ids: ids.slice(0, mostIds), more: ids.length > mostIds };
};
