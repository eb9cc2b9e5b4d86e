/** The tokens of Markdown as elements. HTML is text, images are their addresses, and links ask first. */
import type { Token, Tokens } from 'marked';
import { memo, type ReactNode, useDeferredValue, useMemo, useRef } from 'react';
import { cx } from '../ui/cx.ts';
import { CopyButton } from '../ui/values.tsx';
import { LinkText } from './link-text.tsx';
import { cutAt } from './marks.ts';
import { PlainText } from './markdown.tsx';
import {
  continueMarkdown,
  decodeEntities,
  type Lexed,
  markdownLength,
  plainText,
} from './markdown-tokens.ts';
import { SafeText, Shortened } from './safe-text.tsx';

interface MarkdownViewProps {
  readonly text: string;
  readonly isStreaming: boolean;
}

export function MarkdownView({ text, isStreaming }: MarkdownViewProps) {
  // Typing and clicking come before the newest words.
  const newest = useDeferredValue(text);
  const end = cutAt(newest, markdownLength(newest));
  const whole = newest.slice(0, end).replaceAll('\r\n', '\n');
  const previous = useRef<Lexed>(undefined);
  const lexed = useMemo(
    () => continueMarkdown(isStreaming ? previous.current : undefined, whole),
    [isStreaming, whole],
  );
  previous.current = lexed;
  return (
    <div className="flex min-w-0 flex-col gap-2 break-words">
      {lexed.tokens === undefined ? (
        <PlainText text={whole} />
      ) : (
        lexed.tokens.map((token, index) => <Block key={index} token={token} />)
      )}
      {end < newest.length ? <PlainText text={newest.slice(end)} /> : null}
    </div>
  );
}

const Block = memo(function Block({ token }: { readonly token: Token }) {
  return blockOf(token);
});

function blocksOf(tokens: readonly Token[] | undefined): ReactNode {
  return tokens?.map((token, index) => <Block key={index} token={token} />);
}

const headings = ['text-xl', 'text-lg', 'text-base'];

function blockOf(token: Tokens.Generic): ReactNode {
  switch (token.type) {
    case 'space':
    case 'def':
      return null;
    case 'heading': {
      const { depth, tokens } = token as Tokens.Heading;
      // The title of the page is the only h1, and sections of the page are h2.
      const Heading = `h${Math.min(6, depth + 2)}` as 'h3';
      return (
        <Heading
          dir="auto"
          className={cx('mt-2 font-semibold first:mt-0', headings[depth - 1] ?? 'text-base')}
        >
          {inlineOf(tokens)}
        </Heading>
      );
    }
    case 'paragraph':
      return (
        <p dir="auto" className="whitespace-pre-line">
          {inlineOf(token.tokens)}
        </p>
      );
    case 'text':
      return token.tokens === undefined ? (
        <Words text={token.text as string} />
      ) : (
        <span className="whitespace-pre-line">{inlineOf(token.tokens)}</span>
      );
    case 'code':
      return (
        <CodeBlock text={(token as Tokens.Code).text} language={(token as Tokens.Code).lang} />
      );
    case 'blockquote':
      return (
        <blockquote className="flex min-w-0 flex-col gap-2 border-l-2 border-line-strong pl-3 text-muted">
          {blocksOf(token.tokens)}
        </blockquote>
      );
    case 'list':
      return <List token={token as Tokens.List} />;
    case 'table':
      return <Table token={token as Tokens.Table} />;
    case 'hr':
      return <hr className="my-1 border-line" />;
    case 'html':
      return <HtmlText text={token.raw} />;
    default:
      return <>{inlineOf([token])}</>;
  }
}

function List({ token }: { readonly token: Tokens.List }) {
  const { ordered, start, items, loose } = token;
  const Tag = ordered ? 'ol' : 'ul';
  const first = typeof start === 'number' ? { start } : {};
  return (
    <Tag
      {...first}
      className={cx(
        'flex flex-col pl-6',
        ordered ? 'list-decimal' : 'list-disc',
        loose ? 'gap-2' : 'gap-0.5',
      )}
    >
      {items.map((item, index) => (
        <li key={index} dir="auto" className={cx('min-w-0', item.task && 'list-none')}>
          <div className="flex min-w-0 flex-col gap-1">
            {item.task ? (
              <div className="-ml-5 flex gap-1.5">
                <span role="img" aria-label={item.checked === true ? 'Done' : 'Not done'}>
                  {item.checked === true ? '☑' : '☐'}
                </span>
                <div className="min-w-0">
                  {blocksOf(item.tokens.filter(({ type }) => type !== 'checkbox'))}
                </div>
              </div>
            ) : (
              blocksOf(item.tokens)
            )}
          </div>
        </li>
      ))}
    </Tag>
  );
}

const alignments = { left: 'text-left', center: 'text-center', right: 'text-right' };

const cell = 'border border-line px-2 py-1 align-top';

/** Drawn once, however long the table grows. */
const Row = memo(function Row({ cells }: { readonly cells: readonly Tokens.TableCell[] }) {
  return (
    <tr>
      {cells.map(({ tokens, align }, column) => (
        <td key={column} className={cx(cell, alignments[align ?? 'left'])}>
          {inlineOf(tokens)}
        </td>
      ))}
    </tr>
  );
});

function Table({ token }: { readonly token: Tokens.Table }) {
  const { header, rows } = token;
  return (
    <div role="group" aria-label="Table" tabIndex={0} className="max-w-full overflow-x-auto">
      <table className="border-collapse text-sm">
        <thead>
          <tr>
            {header.map(({ tokens, align }, index) => (
              <th
                key={index}
                className={cx(cell, 'bg-sunken font-semibold', alignments[align ?? 'left'])}
              >
                {inlineOf(tokens)}
              </th>
            ))}
          </tr>
        </thead>
        <tbody>
          {rows.map((row, index) => (
            <Row key={index} cells={row} />
          ))}
        </tbody>
      </table>
    </div>
  );
}

interface CodeBlockProps {
  readonly text: string;
  readonly language?: string | undefined;
}

function CodeBlock({ text, language = '' }: CodeBlockProps) {
  return (
    <figure className="min-w-0 rounded border border-line bg-sunken">
      <figcaption className="flex h-7 items-center justify-between border-b border-line pr-1 pl-3 text-xs text-muted">
        <SafeText text={language === '' ? 'Code' : language} maxLength={40} />
        <CopyButton text={text} label="code" />
      </figcaption>
      <pre
        dir="ltr"
        // A region that scrolls can be scrolled with the keyboard.
        tabIndex={0}
        className="max-h-[70vh] overflow-auto px-3 py-2 font-mono text-xs leading-[1.5]"
      >
        <SafeText text={text} maxLength={20_000} />
      </pre>
    </figure>
  );
}

/** As it was written. */
function HtmlText({ text }: { readonly text: string }) {
  return (
    <code className="font-mono text-[0.92em] whitespace-pre-wrap text-muted">
      <SafeText text={text} maxLength={20_000} />
    </code>
  );
}

function Words({ text }: { readonly text: string }) {
  return <SafeText text={decodeEntities(text)} maxLength={20_000} />;
}

function inlineOf(tokens: readonly Token[] | undefined): ReactNode {
  return tokens?.map((token, index) => <Inline key={index} token={token} />);
}

function Inline({ token }: { readonly token: Tokens.Generic }): ReactNode {
  switch (token.type) {
    case 'strong':
      return <strong className="font-semibold">{inlineOf(token.tokens)}</strong>;
    case 'em':
      return <em>{inlineOf(token.tokens)}</em>;
    case 'del':
      return <del>{inlineOf(token.tokens)}</del>;
    case 'codespan':
      return (
        <code className="rounded-sm bg-sunken px-1 py-px font-mono text-[0.92em] break-words">
          <SafeText text={token['text'] as string} />
        </code>
      );
    case 'br':
      return <br />;
    case 'link': {
      const { href, text, tokens } = token as Tokens.Link;
      const target = decodeEntities(href);
      // There may be images and other links in it, and a button has no buttons in it.
      const shown = plainText(tokens);
      return (
        <LinkText href={target} isAddress={decodeEntities(text) === target}>
          <Shortened text={shown.trim() === '' ? target : shown} maxLength={300} />
        </LinkText>
      );
    }
    case 'image': {
      const { href, text } = token as Tokens.Image;
      const target = decodeEntities(href);
      return (
        <span className="text-muted">
          [Image{text === '' ? '' : ': '}
          <Words text={text} />
          {', '}
          <LinkText href={target} isAddress>
            <Shortened text={target} maxLength={200} />
          </LinkText>
          ]
        </span>
      );
    }
    case 'html':
      return <HtmlText text={token.raw} />;
    case 'escape':
      return <SafeText text={token['text'] as string} />;
    case 'text':
      return token.tokens === undefined ? (
        <Words text={token['text'] as string} />
      ) : (
        <>{inlineOf(token.tokens)}</>
      );
    default:
      // A kind that a newer lexer may have.
      return <Words text={token.raw} />;
  }
}
