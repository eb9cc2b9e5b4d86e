/** Markdown of models. It is loaded when it is first needed; until then its text is shown. */
import { Suspense } from 'react';
import { SafeText } from './safe-text.tsx';
import { lazyPart } from '../ui/lazy-part.ts';

const View = lazyPart(async () => (await import('./markdown-view.tsx')).MarkdownView);

interface MarkdownProps {
  readonly text: string;
  /** Whether more is coming: what is complete already is not taken apart again. */
  readonly isStreaming?: boolean;
}

export function Markdown({ text, isStreaming = false }: MarkdownProps) {
  return (
    <Suspense fallback={<PlainText text={text} />}>
      <View text={text} isStreaming={isStreaming} />
    </Suspense>
  );
}

export function PlainText({ text }: { readonly text: string }) {
  return (
    <div dir="auto" className="break-words whitespace-pre-wrap">
      <SafeText text={text} maxLength={20_000} />
    </div>
  );
}
