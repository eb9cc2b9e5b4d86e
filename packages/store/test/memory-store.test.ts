import { storeContract } from './contract/store-contract.ts';
import { createMemoryStore } from '../src/index.ts';

storeContract('the SQLite store in memory', async () => {
  const store = createMemoryStore();
  return {
    store,
    // A closed one is gone.
    reopen: async () => store,
    dispose: () => store.close(),
  };
});
