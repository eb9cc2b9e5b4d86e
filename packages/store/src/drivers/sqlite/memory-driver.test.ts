import { driverContract } from '../../contract/index.ts';
import { openMemoryDriver } from './memory-driver.ts';

driverContract('SQLite in memory', async () => {
  const driver = openMemoryDriver();
  return { driver, dispose: () => driver.close() };
});
