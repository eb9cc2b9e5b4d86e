export * from './chat-frames.ts';
export * from './collect.ts';
export * from './scripted-provider.ts';
