import type { Handler } from './handler.ts';

export const listModels: Handler = async ({ caller, context }) => {
  const models = context.control.engine.models(caller.tenantId).list();
  const { defaultModel } = context.config;
  return defaultModel === undefined ? { models } : { models, defaultModel };
};
