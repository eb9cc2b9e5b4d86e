import { useQuery } from '@tanstack/react-query';
import { client } from '../../api/client.ts';

/** Budgets, usage, open runs and whether the tenant is paused. */
export function useTenant() {
  return useQuery({
    queryKey: ['tenant'],
    queryFn: ({ signal }) => client.tenant.get({ signal }),
    staleTime: 0,
  });
}
