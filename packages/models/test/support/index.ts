export * from './chat-frames.ts';
export * from './collect.ts';
export * from './scripted-provider.ts';
export { type FakeEmbeddings, startFakeEmbeddings } from './fake-embeddings.ts';
