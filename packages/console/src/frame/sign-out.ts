import { client } from '../api/client.ts';

/** Ends the sign-in on the server, and leaves nothing of it in memory. */
export async function signOut(): Promise<void> {
  await client.console.logout();
  location.assign('/console/login');
}
