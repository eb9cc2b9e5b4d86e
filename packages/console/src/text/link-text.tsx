/** Addresses that models and tools wrote. None is opened before a person has seen all of it. */
import { ExternalLink } from 'lucide-react';
import { type ReactNode, Suspense, useState } from 'react';
import { buttonClass } from '../ui/button.tsx';
import { lazyPart } from '../ui/lazy-part.ts';
import { CopyButton } from '../ui/values.tsx';
import { SafeText } from './safe-text.tsx';

const Dialog = lazyPart(async () => (await import('../ui/overlay.tsx')).Dialog);

const schemes: ReadonlySet<string> = new Set(['http:', 'https:', 'mailto:']);

/** The address that a browser would open; undefined if it should not be opened. */
export function targetOf(href: string): URL | undefined {
  const target = URL.parse(href);
  return target !== null && schemes.has(target.protocol) ? target : undefined;
}

/** An address with its host in bold. A text that is no address is shown as it is. */
export function Address({ url }: { readonly url: string }) {
  const target = URL.parse(url);
  const { host = '', href = url, protocol = '' } = target ?? {};
  const start = host === '' ? -1 : hostStart(href, protocol.length, host);
  if (start < 0) return <SafeText text={url} maxLength={2_000} />;
  return (
    <>
      <span className="text-muted">
        <SafeText text={href.slice(0, start)} maxLength={2_000} />
      </span>
      <strong className="font-semibold">{host}</strong>
      <span className="text-muted">
        <SafeText text={href.slice(start + host.length)} maxLength={2_000} />
      </span>
    </>
  );
}

/** After the user name and password, which may look like a host themselves. */
function hostStart(href: string, from: number, host: string): number {
  const authority = href.indexOf('//', from - 1) + 2;
  const end = href.slice(authority).search(/[/?#]/);
  const last = end < 0 ? href.length : authority + end;
  return last - host.length;
}

interface LinkTextProps {
  readonly href: string;
  readonly children: ReactNode;
  /** Whether the text is the address itself, so that its host need not be shown beside it. */
  readonly isAddress?: boolean;
}

/** The text of a link with the host that it leads to; the whole address is shown before it opens. */
export function LinkText({ href, children, isAddress = false }: LinkTextProps) {
  const [isOpen, setOpen] = useState(false);
  const target = targetOf(href);
  if (target === undefined) {
    return (
      <>
        {children}
        {isAddress ? null : (
          <span className="text-muted">
            {' ('}
            <SafeText text={href} maxLength={200} />)
          </span>
        )}
      </>
    );
  }
  const place = target.host === '' ? target.pathname : target.host;
  return (
    <>
      <button
        type="button"
        className="text-left underline decoration-dotted underline-offset-2 hover:decoration-solid"
        onClick={() => setOpen(true)}
      >
        {children}
      </button>
      {isAddress ? null : (
        <span className="text-muted">
          {' ('}
          <SafeText text={place} maxLength={100} />)
        </span>
      )}
      {isOpen ? (
        <Suspense>
          <Dialog
            open
            onOpenChange={setOpen}
            title="Open this address?"
            width="sm"
            footer={
              <a
                href={target.href}
                target="_blank"
                rel="noopener noreferrer nofollow"
                className={buttonClass('primary')}
                onClick={() => setOpen(false)}
              >
                <ExternalLink aria-hidden size={16} /> Open in a new tab
              </a>
            }
          >
            <p className="mb-2 text-sm text-muted">
              A model or a tool wrote this link. It leads to{' '}
              <strong className="break-all text-text">{place}</strong>.
            </p>
            <div className="flex items-start gap-1 rounded border border-line bg-sunken p-2 font-mono text-xs">
              <div className="max-h-48 min-w-0 flex-1 overflow-y-auto break-all">
                <Address url={target.href} />
              </div>
              <CopyButton text={target.href} label="address" />
            </div>
          </Dialog>
        </Suspense>
      ) : null}
    </>
  );
}
