import { storeContract } from './contract/index.ts';
import { createMemoryStore } from './index.ts';

storeContract('the SQLite store in memory', async () => {
  const store = createMemoryStore();
  return {
    store,
    // A closed one is gone.
    reopen: async () => store,
    dispose: () => store.close(),
  };
});
