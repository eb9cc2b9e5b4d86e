import { Select } from '../../ui/form.tsx';
import { useAgents } from '../../api/catalog.ts';

interface AgentSelectProps {
  readonly id?: string;
  readonly agent: string | undefined;
  readonly onChange: (agent: string | undefined) => void;
  /** The choice that is no agent. */
  readonly none: string;
}

/** An agent of the server, or the one that is named already. */
export function AgentSelect({ id, agent, onChange, none }: AgentSelectProps) {
  const { data } = useAgents();
  const names = new Set(data?.map(({ name }) => name));
  if (agent !== undefined) names.add(agent);
  return (
    <Select
      id={id}
      aria-label={id === undefined ? 'Agent' : undefined}
      value={agent ?? ''}
      onChange={({ target: { value } }) => onChange(value === '' ? undefined : value)}
    >
      <option value="">{none}</option>
      {[...names].map((name) => (
        <option key={name} value={name}>
          {name}
        </option>
      ))}
    </Select>
  );
}
