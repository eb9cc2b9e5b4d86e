import { client } from '../api/client.ts';
import { errorText } from '../ui/notice.tsx';
import { toast } from '../ui/toast.tsx';

/** Ends the sign-in on the server, and leaves nothing of it in memory. */
export async function signOut(): Promise<void> {
  try {
    await client.console.logout();
  } catch (error) {
    toast(`You are still signed in. ${errorText(error)}`, 'error');
    return;
  }
  location.assign('/console/login');
}
