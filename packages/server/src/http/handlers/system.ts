/** The server itself: health, documentation, metrics, and the models and tools it offers. */
import { namedAgents, type ParameterKind, type Tool } from '@relay/core';
import { knownModelsOf } from '@relay/models';
import { defined, namespaceOf, openApiDocument, RelayError } from '@relay/protocol';
import { docsPage } from '../views/docs-page.ts';
import type { ApiRequest, Handler, PublicHandler } from './handler.ts';
import { defaultModelFor } from './runs/start.ts';

export const welcome: PublicHandler<'welcome'> = async ({ version }) => ({
  name: 'Relay',
  version,
  docs: '/docs',
  openapi: '/openapi.json',
  health: '/health',
});

export const health: PublicHandler<'health'> = async ({ version }) => ({ status: 'ok', version });

export const ready: PublicHandler<'ready'> = async ({ isStopping, store }) => {
  if (isStopping()) throw new RelayError('shutting_down', 'The server is shutting down');
  await store.ping();
  return { status: 'ready' };
};

/** Made once: it takes about 90 ms. */
const documents = new Map<string, ReturnType<typeof openApiDocument>>();

function documentOf(version: string) {
  const document = documents.get(version) ?? openApiDocument(version);
  documents.set(version, document);
  return document;
}

export const openApi: PublicHandler<'openApi'> = async ({ version }) => ({
  ...documentOf(version),
});

export const docs: PublicHandler<'docs'> = async ({ version }) => docsPage(documentOf(version));

export const metrics: Handler<'metrics'> = async (call) => {
  call.reply.header('content-type', 'text/plain; version=0.0.4; charset=utf-8');
  const { actor, tenantId } = call.caller;
  return call.context.metrics.render(actor.type === 'key' ? tenantId : undefined);
};

/** The known models. Providers may offer more; any other name is passed on to its provider. */
export const listModels: Handler<'listModels'> = async (call) => {
  const { caller, context } = call;
  const offered = context.control.engine.models(caller.tenantId).list();
  const models =
    caller.keyless === 'demo'
      ? offered.filter(({ id }) => id === 'demo')
      : [...offered, ...(await modelsByCredential(call))];
  return { models, defaultModel: defaultModelFor(call) };
};

/** The models behind a custom base URL are unknown. */
async function modelsByCredential(call: ApiRequest): Promise<{ id: string; provider: string }[]> {
  const credentials = await call.context.vault.list(call.caller.tenantId);
  return credentials
    .filter(({ baseUrl }) => baseUrl === null)
    .flatMap(({ provider }) => knownModelsOf(provider).map((id) => ({ id, provider })));
}

/** Without instructions, which are for models. */
export const listAgents: Handler<'listAgents'> = async ({ caller, context }) => ({
  agents: namedAgents(context.control.engine.agents(caller.tenantId)).map(
    ({ name, description, model, tools, handoffs, memory, isDefault }) => ({
      name,
      description,
      model,
      tools,
      handoffs,
      memory: memory && namespaceOf(memory),
      isDefault,
    }),
  ),
  nextCursor: null,
});

/** The tools that requests may name. The tools of an MCP server are known once it has answered. */
export const listTools: Handler<'listTools'> = async ({ caller, context }) => ({
  tools: context.control.engine
    .tools(caller.tenantId)
    .list()
    .map((tool) => ({
      name: tool.name,
      description: tool.description,
      inputSchema: tool.inputSchema,
      ...defined({ kinds: tool.kinds && kindsOf(tool.kinds), needs: needsOf(tool) }),
      allowedByDefault: tool.allowedByDefault,
      needsApproval: tool.needsApproval === true,
      idempotent: tool.idempotent,
    })),
  mcpServers: context
    .mcpServers(caller.tenantId)
    .map((server) => ({ ...server, warnings: [...server.warnings] })),
});

function needsOf({ needsSession, needsMemory }: Tool): 'session' | 'memory' | undefined {
  if (needsSession === true) return 'session';
  return needsMemory === true ? 'memory' : undefined;
}

function kindsOf(kinds: Readonly<Record<string, ParameterKind>>) {
  return Object.fromEntries(
    Object.entries(kinds).flatMap(([name, kind]) => (kind === 'text' ? [] : [[name, kind]])),
  );
}
