/**
 * Conversations: who owns them, and lists of them, the one with the latest run first. A run changes the row
 * of its conversation as it is created, in the same unit. What a list shows of that run is read with the
 * page, so that its steps and its end change no index.
 */
import type { ConversationFilter, ConversationRecord, RunCreation } from '@relay/core';
import { type Message, type RunStatus } from '@relay/protocol';
import type { Row, Statement } from '../../drivers/driver.ts';
import { encode, encodeOrNull, freeText, number, text, textOrNull } from '../../codec/values.ts';
import { type List, type Range, rowsOn, selectPage } from '../lists.ts';
import { insertInto } from '../statements.ts';

const columns = [
  'tenant_id',
  'id',
  'updated_at',
  'runs',
  'last_run_id',
  'ended_runs',
  'owner',
  'session_id',
  'title',
  'title_search',
  'created_at',
];

const insertSql = insertInto('conversations', columns);

/** What a further run changes. Without a title, it gives one. */
const changes = `runs = conversations.runs + 1, last_run_id = excluded.last_run_id,
    updated_at = CASE WHEN excluded.updated_at > conversations.updated_at
      THEN excluded.updated_at ELSE conversations.updated_at END,
    title = COALESCE(conversations.title, excluded.title),
    title_search = COALESCE(conversations.title_search, excluded.title_search)`;

const changeSql = `${insertSql} ON CONFLICT (tenant_id, id) DO UPDATE SET ${changes}`;

/** Changes a row only if the conversation is new or belongs to this owner. */
export const ownConversationSql = `${changeSql} WHERE conversations.owner = excluded.owner`;

export function takeConversation(creation: RunCreation): Statement {
  const { identity, conversation, events } = creation;
  const { tenantId, conversationId, createdAt } = identity;
  const created = events.find((event) => event.type === 'run.created');
  const title = titleOf(created?.messages ?? []);
  const params = [
    tenantId,
    conversationId,
    createdAt,
    1,
    identity.id,
    0,
    encode(identity.owner),
    created?.sessionId ?? null,
    encodeOrNull(title),
    encodeOrNull(title === null ? null : foldOf(title)),
    createdAt,
  ];
  if (conversation === 'any') return { sql: changeSql, params };
  const sql = conversation === 'new' ? insertSql : ownConversationSql;
  return { sql, params, expect: 1 };
}

const mostCharacters = 200;

/** The first text of a user, on one line. */
function titleOf(messages: readonly Message[]): string | null {
  for (const message of messages) {
    if (message.role !== 'user') continue;
    // Longer than needed, because white space is removed.
    const start = firstText(message.content).slice(0, 10 * mostCharacters);
    const line = start.replaceAll(/\s+/g, ' ').trim();
    const characters = Array.from(line);
    if (line !== '') {
      return characters.length <= mostCharacters
        ? line
        : `${characters.slice(0, mostCharacters - 1).join('')}…`;
    }
  }
  return null;
}

/** What follows it may be attached. */
function firstText(content: Extract<Message, { role: 'user' }>['content']): string {
  if (typeof content === 'string') return content;
  const texts = content.flatMap((part) => (part.type === 'text' ? part.text : []));
  return texts.find((text) => text.trim() !== '') ?? '';
}

function foldOf(searched: string): string {
  return searched.toLowerCase();
}

const runColumns = 'l.agent AS agent, l.status AS status';

/** The function around the tenant keeps PostgreSQL from reading all runs of the tenant. */
const joinRun = `LEFT JOIN runs l
  ON l.id = r.last_run_id AND COALESCE(l.tenant_id, '') = r.tenant_id`;

const shown = columns.filter((column) => column !== 'title_search' && column !== 'ended_runs');

export const selectConversationSql = `SELECT ${shown.map((column) => `r.${column}`).join(', ')}, ${runColumns}
  FROM conversations r ${joinRun} WHERE r.tenant_id = ? AND r.id = ?`;

export function conversationList(tenantId: string, { query }: ConversationFilter): List {
  const list = { tenantId, table: 'conversations', at: 'updated_at', isFoundByTime: true };
  if (query === undefined) return list;
  // Without the quotes of the encoded text.
  const part = encode(foldOf(query)).slice(1, -1);
  const pattern = `%${part.replaceAll(/[%_!]/g, '!$&')}%`;
  const others = [{ sql: `t.title_search LIKE ? ESCAPE '!'`, params: [pattern] }];
  return { ...list, others };
}

export function selectConversations(list: List, range: Range): Statement {
  const { tenantId, table, at } = list;
  const joined = { columns: runColumns, join: joinRun };
  return rowsOn(selectPage(list, range), { tenantId, table, columns: shown, time: at, joined });
}

export function decodeConversation(row: Row): ConversationRecord {
  return {
    id: text(row, 'id'),
    title: row['title'] === null ? null : freeText(row, 'title'),
    agent: freeText(row, 'agent'),
    runs: number(row, 'runs'),
    lastRunId: text(row, 'last_run_id'),
    status: text(row, 'status') as RunStatus,
    owner: freeText(row, 'owner'),
    sessionId: textOrNull(row, 'session_id'),
    createdAt: number(row, 'created_at'),
    updatedAt: number(row, 'updated_at'),
  };
}
