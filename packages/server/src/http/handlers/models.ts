import { knownModelsOf } from '@relay/models';
import { storeOf } from './find.ts';
import type { Call, Handler } from './handler.ts';

/** What can be asked for at once. Providers have more; whatever they call them is tried as it is named. */
export const listModels: Handler = async (call) => {
  const { caller, context } = call;
  const models = [
    ...context.control.engine.models(caller.tenantId).list(),
    ...(await modelsByCredential(call)),
  ];
  const { defaultModel } = context.config;
  return defaultModel === undefined ? { models } : { models, defaultModel };
};

/** Who answers at an address of the tenant's own offers nobody knows what. */
async function modelsByCredential(call: Call): Promise<{ id: string; provider: string }[]> {
  const credentials = await storeOf(call).listCredentials();
  return credentials
    .filter(({ baseUrl }) => baseUrl === null)
    .flatMap(({ provider }) => knownModelsOf(provider).map((id) => ({ id, provider })));
}
