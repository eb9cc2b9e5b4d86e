/** Markdown of models. Placeholder until the renderer lands. */
import { SafeText } from './safe-text.tsx';

export function Markdown({ text }: { readonly text: string }) {
  return (
    <div className="break-words whitespace-pre-wrap">
      <SafeText text={text} maxLength={20_000} />
    </div>
  );
}
