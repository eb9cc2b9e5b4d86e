/** The statements on sessions by name, to look at their plans. */
import type { MessageFilter, SessionFilter } from '@relay/core';
import { checksumAuthenticator, RowSigner } from '../../src/codec/signed-table.ts';
import type { SqlDialect, Statement } from '../../src/drivers/driver.ts';
import type { List, Range } from '../../src/sql/lists.ts';
import * as actions from '../../src/sql/sessions/actions.ts';
import * as channels from '../../src/sql/sessions/channels.ts';
import { openCommandsSql, selectCommandSql } from '../../src/sql/sessions/commands.ts';
import * as deliveries from '../../src/sql/sessions/deliveries.ts';
import * as directory from '../../src/sql/sessions/directory.ts';
import { selectSessionPageSql, selectSnapshotSql } from '../../src/sql/sessions/journal.ts';
import * as messages from '../../src/sql/sessions/messages.ts';
import { deleteMarked, markSession, pruneUnit } from '../../src/sql/sessions/retention.ts';
import * as sessions from '../../src/sql/sessions/sessions.ts';
import { SessionStatements } from '../../src/sql/sessions/write.ts';
import { cancelCommand, noon } from '../contract/fixtures.ts';
import {
  changeOf,
  idle,
  newInvocation,
  newMessage,
  sending,
} from '../contract/sessions/fixtures.ts';

const signer = new RowSigner(checksumAuthenticator);
const page = { limit: 50 };
const visibleTo = { sessionId: 's', channels: ['a', 'b'] };

export const sessionFilters: readonly SessionFilter[] = [
  {},
  { status: 'idle' },
  { status: ['idle', 'active'], harness: 'native' },
  { label: { name: 'a', value: 'b' } },
];

export const messageFilters: readonly MessageFilter[] = [
  {},
  { since: 1 },
  { channel: 'c' },
  { with: 's' },
  { thread: 'm' },
  { visibleTo },
  { channel: 'c', with: 's', visibleTo },
  { thread: 'm', visibleTo },
];

const searches: readonly MessageFilter[] = [
  { query: 'w1 w2' },
  { query: 'w1', channel: 'c', thread: 'm', visibleTo },
];

/** A write with every part. */
function writeOf(dialect: SqlDialect): readonly Statement[] {
  const sent = sending(['s']);
  const change = changeOf('s', {
    ifVersion: 1,
    progress: { ...idle, releasedAt: noon },
    deliveries: [
      { id: 'd', from: ['accepted'], to: 'delivered' },
      { id: 'd', from: ['failed'], to: 'accepted', isRequeued: true },
    ],
  });
  return new SessionStatements(
    { dialect, signer, tenantId: 't' },
    {
      ...sent,
      changes: [...sent.changes.map((each) => ({ ...each, dueBy: noon })), change],
      idempotency: { sender: 's', key: 'k', fingerprint: 'f', expiresAt: noon },
      runCommands: [{ runId: 'r', queued: cancelCommand('stop') }],
      answers: [{ id: 'c', sessionId: 's', at: noon, ok: true }],
      invocations: [newInvocation()],
      invocationChanges: [{ id: 'i', from: ['running'], to: 'completed', at: noon }],
    },
  ).statements;
}

function numbered(name: string, unit: readonly Statement[]): [string, string][] {
  return unit.map(({ sql }, n) => [`step ${n} of ${name}`, sql]);
}

/** Each way to read each list. */
function listed<Filter>(
  name: string,
  filters: readonly Filter[],
  waysOf: (filter: Filter) => readonly List[],
  selectorOf: (filter: Filter) => (list: List, range: Range) => Statement,
): Record<string, string> {
  return Object.fromEntries(
    filters.flatMap((filter) =>
      waysOf(filter).map((list, way) => [
        `${name} by ${JSON.stringify(filter)}, way ${way},`,
        selectorOf(filter)(list, page).sql,
      ]),
    ),
  );
}

/** Of a tenant. */
export function statementsOfTenant(dialect: SqlDialect): Record<string, string> {
  const session = { tenantId: 't', sessionId: 's' };
  const { channels: _channels, direct: _direct, ...sent } = newMessage();
  const message = { ...sent, editedAt: null, withdrawnAt: null };
  return {
    'a session': sessions.selectSessionSql,
    'a session by its handle': sessions.selectByHandleSql,
    'a released session by its handle': sessions.selectReleasedSql,
    'a session by its run': sessions.selectByRunSql,
    'the signed part of a session': sessions.selectSignedSql,
    'a counted change of a session': sessions.countChange('t', 's').sql,
    'a session that is made due': sessions.makeDue('t', 's', 0).sql,
    'an opened stream': sessions.openStream('t', 's', { id: 'x', node: 'n', at: 0 }).sql,
    'a closed stream': sessions.closeStream('t', 's', { id: 'x', at: 0, dueBy: 0 }).sql,
    'a page of a journal': selectSessionPageSql,
    'a snapshot': selectSnapshotSql,
    'the open commands': openCommandsSql,
    'a command': selectCommandSql,
    'a message': messages.selectMessageSql,
    'the participants of a thread': messages.selectParticipants('t', 'm').sql,
    'a withdrawal': messages.withdrawMessage('t', 'm', 0).sql,
    'an edited message': messages.editMessage('t', {}, message).statement.sql,
    ...Object.fromEntries(
      numbered('an edit', deliveries.editDeliveries('t', 'm', { bytes: 1, mode: 'manual' })),
    ),
    'a delivery': deliveries.selectDeliverySql,
    'the deliveries of a message': deliveries.selectOfMessageSql,
    'an inbox': deliveries.inboxSql,
    'what is not consumed': deliveries.unconsumedSql,
    'what can be sent': deliveries.sendableSql,
    'what is available next': deliveries.nextAvailableSql,
    'whether an inbox has space': deliveries.overfullSql,
    ...listed(
      'deliveries',
      [{}, { status: 'failed' }, { sessionId: 's' }, { sessionId: 's', status: 'failed' }] as const,
      (filter) => deliveries.deliveryLists('t', filter),
      () => deliveries.selectDeliveries,
    ),
    'a channel': channels.selectChannelSql,
    'the channels': channels.selectChannelsSql,
    'the members of a channel': channels.selectMembersSql,
    'the channels of a session': channels.selectChannelsOfSql,
    'an action': actions.selectActionSql,
    'the actions': actions.selectActionsSql,
    'an invocation': actions.selectInvocationSql,
    'the unsent invocations': actions.unsentInvocationsSql,
    'the sent invocations': actions.sentInvocationsSql,
    'the mark of a session': markSession('t', 's', 0).sql,
    ...Object.fromEntries(numbered('a deletion', deleteMarked(9, session))),
    ...Object.fromEntries(numbered('a write', writeOf(dialect))),
    ...listed(
      'sessions',
      sessionFilters,
      (filter) => sessions.sessionLists('t', filter),
      () => sessions.selectSessions,
    ),
    ...listed(
      'messages',
      [...messageFilters, ...searches],
      (filter) => messages.messageLists('t', filter),
      (filter) => messages.messageSelector(dialect, filter),
    ),
  };
}

/** Of all tenants. */
export function statementsOfSystem(dialect: SqlDialect): Record<string, string> {
  return {
    'a token': directory.selectByTokenSql,
    'the sessions that are due': directory.dueSql[dialect],
    'the handlers that are due': directory.dueHandlersSql[dialect],
    'the invocations that are due': directory.dueInvocationsSql[dialect],
    'the sessions of dead nodes': directory.orphansSql[dialect],
    'the last seqs and versions': directory.headsSql,
    'the count of sessions': directory.countSessionsSql(false),
    'the length of all queues': directory.countQueuedSql(false),
    'the sessions that are waited for': directory.waitedForSql(false),
    ...Object.fromEntries(numbered('pruning', pruneUnit(0, 9))),
  };
}
