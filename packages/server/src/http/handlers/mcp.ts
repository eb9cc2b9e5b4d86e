import type { Handler } from './handler.ts';

/** The library of the protocol is loaded with the first message. */
export const serveMcp: Handler<'serveMcp'> = async (call) => {
  const { answer } = await import('../../mcp/endpoint.ts');
  await answer(call);
};
