import { createDatabase } from '../../../../test/support/postgres.ts';
import { driverContract } from '../contract/index.ts';
import { openPostgresDriver } from '../../src/drivers/postgres.ts';

driverContract('PostgreSQL', async () => {
  const database = await createDatabase();
  const driver = await openPostgresDriver({ url: database.url });
  return {
    driver,
    dispose: async () => {
      await driver.close();
      await database.drop();
    },
  };
});
