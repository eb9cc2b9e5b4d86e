import { driverContract } from '../../contract/driver-contract.ts';
import { openMemoryDriver } from '../../../src/drivers/sqlite/memory-driver.ts';

driverContract('SQLite in memory', async () => {
  const driver = openMemoryDriver();
  return { driver, dispose: () => driver.close() };
});
