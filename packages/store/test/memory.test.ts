import { storeContract } from './contract/index.ts';
import { createMemoryStore } from '../src/memory.ts';

storeContract('the memory store', async () => {
  const store = createMemoryStore();
  return {
    store,
    reopen: async () => {
      await store.close();
      return store;
    },
    dispose: () => store.close(),
  };
});
