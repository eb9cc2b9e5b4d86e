import { SafeText } from './safe-text.tsx';

/** A unified diff. */
export function Diff({ text }: { readonly text: string }) {
  return (
    <pre className="overflow-x-auto font-mono text-xs">
      <SafeText text={text} />
    </pre>
  );
}
