/** `/openapi.json` and `/docs`, and whether the responses match them. */
import { openApiDocument, type Route, type RouteName, routes } from '@relay/protocol';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { addKey, bootServer, type TestServer } from '../support/server.ts';
import { finishedRun, startApiChat, startRun, untilStatus } from '../support/requests.ts';
import { version } from '../../src/version.ts';

const table = Object.entries(routes) as [RouteName, Route][];
const missing = '01963a5c-7891-7abc-8ef0-123456789abc';

let server: TestServer;
beforeAll(async () => {
  server = await bootServer({ env: { RELAY_INTERNAL_SECRET: 'a-secret-of-16-or-more' } });
});
afterAll(async () => {
  await server.stop();
});

describe('/openapi.json', () => {
  it('returns the document of this version without a key', async () => {
    const response = await server.request('/openapi.json', { key: null });
    expect(response.status).toBe(200);
    expect(response.headers.get('content-type')).toMatch(/^application\/json/);
    expect(await response.json()).toEqual(openApiDocument(version));
    expect(version).toMatch(/^\d+\.\d+\.\d+/);
  });
});

describe('/docs', () => {
  it('returns a page without a key, with a strict content security policy', async () => {
    const response = await server.request('/docs', { key: null });
    expect(response.status).toBe(200);
    expect(response.headers.get('content-type')).toBe('text/html; charset=utf-8');
    const policy = response.headers.get('content-security-policy') ?? '';
    expect(policy).toContain("default-src 'none'");
    expect(policy).not.toMatch(/script|https?:|\*/);
    const page = await response.text();
    expect(page).toContain('<title>Relay API</title>');
    for (const [name] of table) expect(page).toContain(`<article id="${name}">`);
  });

  it('allows only GET and HEAD', async () => {
    for (const path of ['/docs', '/openapi.json']) {
      for (const method of ['POST', 'PUT', 'DELETE']) {
        const response = await server.request(path, { method, key: null });
        expect(response.status).toBe(405);
        expect(response.headers.get('allow')).toBe('GET, HEAD');
      }
    }
  });
});

describe('every route of the document', () => {
  it.each(table)('%s is served under its method, and others are refused', async (_name, route) => {
    const path = route.path.replaceAll(/:\w+/g, missing);
    const here = table
      .filter(([, each]) => each.path === route.path)
      .flatMap(([, { method, auth }]): string[] =>
        auth === 'public' ? [method, 'HEAD'] : [method],
      );
    // It is also a page.
    if (route.path === '/console/login') here.push('GET', 'HEAD');
    const served = await server.request(path, {
      method: route.method,
      ...(route.body === undefined ? {} : { body: {} }),
    });
    expect(served.status).not.toBe(405);
    await served.body?.cancel();
    for (const method of ['GET', 'POST', 'PUT', 'DELETE', 'PATCH'] as const) {
      if (here.includes(method)) continue;
      const refused = await server.request(path, { method });
      expect(refused.status).toBe(405);
      expect(refused.headers.get('allow')?.split(', ').toSorted()).toEqual(here.toSorted());
    }
  });

  it.each(table.filter(([, { auth }]) => !['public', 'link', 'sign-in'].includes(auth ?? '')))(
    '%s refuses a stranger as it says',
    async (_name, route) => {
      const path = route.path.replaceAll(/:\w+/g, missing);
      const response = await server.request(path, { method: route.method, key: 'x' });
      expect(response.status).toBe(401);
      expect(route.errors).toContain('unauthorized');
    },
  );
});

describe('responses', () => {
  let own: TestServer;
  beforeAll(async () => {
    own = await bootServer();
  });
  afterAll(async () => {
    await own.stop();
  });

  /** The response has exactly the fields of the document. */
  async function expectAsPromised(name: RouteName, response: Response): Promise<unknown> {
    const { output, status }: Route = routes[name];
    expect(response.status).toBe(status ?? 200);
    const body: unknown = await response.json();
    const parsed = output?.safeParse(body);
    expect(parsed?.error?.issues ?? []).toEqual([]);
    expect(parsed?.data).toEqual(body);
    return body;
  }

  it('of the system match their schemas', async () => {
    await expectAsPromised('health', await own.request('/health'));
    await expectAsPromised('ready', await own.request('/ready'));
    await expectAsPromised('listModels', await own.request('/models'));
    await expectAsPromised('listAgents', await own.request('/v1/agents'));
    await expectAsPromised('listTools', await own.request('/v1/tools'));
  });

  it('about runs match their schemas, whatever their status', async () => {
    const labels = { team: 'red' };
    const parent = await finishedRun(own, { input: 'say 1' });
    const { runId } = await finishedRun(own, {
      input: 'calculate 1+2',
      labels,
      workflowId: 'flow',
      parentRunId: parent.runId,
    });
    await own.request('/v1/runs', { body: { model: 'demo', input: 'fail 400' } });
    const messages = [
      { role: 'system', content: 'Be brief' },
      { role: 'user', content: [{ type: 'text', text: 'say 1' }] },
    ];
    await finishedRun(own, { input: messages });
    const asked = await startRun(own, { input: 'notify somebody' });
    await untilStatus(own, asked.runId, 'waiting');
    const { runs } = (await expectAsPromised('listRuns', await own.request('/v1/runs'))) as {
      runs: { id: string }[];
    };
    expect(runs).toHaveLength(5);
    for (const { id } of runs) {
      await expectAsPromised('getRun', await own.request(`/v1/runs/${id}`));
      await expectAsPromised('listRunEvents', await own.request(`/v1/runs/${id}/events`));
    }
    const listed = await expectAsPromised(
      'listConversations',
      await own.request('/v1/conversations'),
    );
    const { conversations } = listed as { conversations: { id: string }[] };
    expect(conversations).toHaveLength(5);
    const path = `/v1/conversations/${conversations[0]?.id}`;
    await expectAsPromised('getConversation', await own.request(path));
    const cancel = { method: 'POST' };
    await expectAsPromised(
      'cancelRun',
      await own.request(`/v1/runs/${asked.runId}/cancel`, cancel),
    );
    await asked.reader.rest();
    await expectAsPromised('cancelRun', await own.request(`/v1/runs/${runId}/cancel`, cancel));
  });

  it('about approvals match their schemas, before and after the decision', async () => {
    const input = ['a', 'b', 'c'].map((text) => `use send_note {"to":"x","text":"${text}"}`);
    const { runId, reader } = await startRun(own, { input: input.join('\n') });
    await untilStatus(own, runId, 'waiting');
    const list = () => own.request(`/v1/approvals?runId=${runId}`);
    const { approvals } = (await expectAsPromised('listApprovals', await list())) as {
      approvals: { id: string }[];
    };
    const [one, two, three] = approvals.map(({ id }) => `/v1/approvals/${id}`);
    const yes = await own.request(one ?? '', { body: { approved: true } });
    await expectAsPromised('decideApproval', yes);
    const no = await own.request(two ?? '', { body: { approved: false, reason: 'No' } });
    await expectAsPromised('decideApproval', no);
    await own.request(`/v1/runs/${runId}/cancel`, { method: 'POST' });
    await reader.rest();
    await expectAsPromised('getApproval', await own.request(three ?? ''));
    await expectAsPromised('listApprovals', await list());
  });

  it('of /api/chat match their schemas', async () => {
    const { runId, reader } = await startApiChat(own, 'notify somebody');
    await untilStatus(own, runId, 'waiting');
    const resume = () => own.request('/api/chat/resume', { body: { runId } });
    await expectAsPromised('resumeChat', await resume());
    const decision = { runId, toolCallId: 'call_1', action: 'approve' };
    for (let n = 0; n < 2; n += 1) {
      const decided = await own.request('/api/chat/tool-approval', { body: decision });
      await expectAsPromised('approveTool', decided);
    }
    await expectAsPromised('resumeChat', await resume());
    await reader.rest();
  });

  it('about keys match their schemas', async () => {
    const expiresAt = new Date(Date.now() + 60_000).toISOString();
    const full = { name: 'full', scopes: ['runs'], owner: 'ann', expiresAt };
    const plain = { name: 'plain', scopes: ['runs', 'approve', 'admin'] };
    for (const body of [full, plain]) {
      await expectAsPromised('createKey', await own.request('/v1/keys', { body }));
    }
    const { keyId } = await addKey(own.store, {});
    const revoked = await own.request(`/v1/keys/${keyId}`, { method: 'DELETE' });
    expect(revoked.status).toBe(204);
    await expectAsPromised('listKeys', await own.request('/v1/keys'));
  });
});
