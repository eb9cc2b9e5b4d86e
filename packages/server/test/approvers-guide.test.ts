/** The commands of the guide “Who may approve what”, run in its order. */
import { readFileSync } from 'node:fs';
import { afterAll, beforeAll, expect, it } from 'vitest';
import { bootServer, type TestServer, until } from './support/server.ts';
import { startRun } from './support/requests.ts';

const guide = readFileSync(new URL('../../../docs/guides/approvers.md', import.meta.url), 'utf8');

interface Command {
  readonly method?: string;
  readonly path: string;
  readonly body?: unknown;
}

/** What `curl` would send. */
function commandOf(block: string): Command {
  const path = /\$RELAY_URL(\/[^\s"]*)/.exec(block)?.[1] ?? '';
  const body = /-d '(.*)'/s.exec(block)?.[1];
  const method = /-X (\w+)/.exec(block)?.[1];
  return {
    path,
    ...(method === undefined ? {} : { method }),
    ...(body === undefined ? {} : { body: JSON.parse(body) as unknown }),
  };
}

const commands = [...guide.matchAll(/```sh\n(.*?)```/gs)].map(([, block = '']) => commandOf(block));
const shown = /```json\n(.*?)```/s.exec(guide)?.[1] ?? '';

let server: TestServer;

beforeAll(async () => {
  server = await bootServer();
});

afterAll(async () => {
  await server.stop();
});

it('makes two people approve a deployment, and shows their votes and roles in the audit trail', async () => {
  expect(commands.map(({ path }) => path)).toEqual([
    '/v1/keys',
    '/v1/policy',
    '/v1/approvals/$APPROVAL_ID',
    '/v1/audit?action=approval.decided&limit=1',
  ]);
  const [newKey, policy, approve, audit] = commands as [Command, Command, Command, Command];
  const ada = await server.json(newKey.path, newKey);
  const ben = { ...(newKey.body as object), name: 'Ben', owner: 'ben' };
  const { apiKey: benKey } = await server.json(newKey.path, { ...newKey, body: ben });
  expect(await server.json(policy.path, policy)).toMatchObject({ version: 1 });

  const { reader } = await startRun(server, {
    input: 'use send_note {"to": "production", "text": "Deploy 7"}',
  });
  const { data } = await reader.until('approval_requested');
  const path = approve.path.replace('$APPROVAL_ID', String(data['id']));
  const vote = (key: unknown) => server.json(path, { ...approve, key: String(key) });
  expect(await server.json(path, approve)).toMatchObject({ code: 'not_an_approver' });
  const example = JSON.parse(
    shown.replaceAll('"019a…"', JSON.stringify(ada['id'])).replaceAll('"…"', '"any time"'),
  ) as { votes: object[] };
  expect(await vote(ada['apiKey'])).toMatchObject({
    ...example,
    votes: example.votes.map((each) => ({ ...each, at: expect.any(String) })),
  });
  expect(await vote(benKey)).toMatchObject({ status: 'approved' });
  await reader.rest();
  expect(server.notes().filter((line) => line.includes('Deploy 7'))).toHaveLength(1);

  const votes = ['ada (approver)', 'ben (approver)'];
  expect(guide).toContain(JSON.stringify(votes).replace(',', ', '));
  const entries = await until(async () => {
    const found = await server.json(audit.path);
    return (found['entries'] as unknown[]).length > 0 ? found['entries'] : undefined;
  }, 'the entry');
  expect(entries).toMatchObject([{ action: 'approval.decided', what: { votes, quorum: 2 } }]);
});
