import { SafeText } from './safe-text.tsx';

export function Json({ value }: { readonly value: unknown }) {
  return (
    <pre className="overflow-x-auto font-mono text-xs">
      <SafeText text={JSON.stringify(value, null, 2) ?? 'null'} />
    </pre>
  );
}
