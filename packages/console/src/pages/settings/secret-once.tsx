/** A secret that the server tells only once. It is gone when the dialog closes. */
import { Button } from '../../ui/button.tsx';
import { Note } from '../../ui/notice.tsx';
import { Dialog } from '../../ui/overlay.tsx';
import { CopyButton } from '../../ui/values.tsx';

interface SecretOnceProps {
  readonly title: string;
  /** What is copied, such as "API key". */
  readonly label: string;
  readonly secret: string;
  readonly children?: React.ReactNode;
  readonly onClose: () => void;
}

export function SecretOnce({ title, label, secret, children, onClose }: SecretOnceProps) {
  return (
    <Dialog
      open
      // Only by its buttons: a click beside it would lose the secret.
      onOpenChange={(_, reason) => {
        if (reason === 'close-press') onClose();
      }}
      title={title}
      footer={
        <Button kind="primary" onClick={onClose}>
          I have stored it
        </Button>
      }
    >
      <div className="flex flex-col gap-3 text-sm">
        <Note tone="waiting">This is shown only once. Store it before you close this.</Note>
        <div className="flex items-start gap-2 rounded bg-sunken p-2">
          <output aria-label={label} className="min-w-0 flex-1 font-mono text-sm break-all">
            {secret}
          </output>
          <CopyButton text={secret} label={label} />
        </div>
        {children}
      </div>
    </Dialog>
  );
}
