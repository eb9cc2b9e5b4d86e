/** What lies above the page: dialogs and menus. Pages load it when they need it (`lazy`). */
import { AlertDialog } from '@base-ui/react/alert-dialog';
import { Dialog as BaseDialog } from '@base-ui/react/dialog';
import { Menu as BaseMenu } from '@base-ui/react/menu';
import { X } from 'lucide-react';
import { type ReactElement, type ReactNode, useId, useRef, useState } from 'react';
import { Button, IconButton } from './button.tsx';
import { cx } from './cx.ts';
import { Input } from './form.tsx';

const popup = 'rounded border border-line bg-surface text-text shadow-overlay outline-none';
const backdrop = 'fixed inset-0 z-40 bg-overlay';
const centred =
  'fixed inset-x-3 top-[8vh] z-50 mx-auto flex max-h-[84vh] flex-col overflow-hidden sm:inset-x-0';

interface DialogProps {
  readonly open: boolean;
  /** `reason`: such as `close-press`, `escape-key` or `outside-press`. */
  readonly onOpenChange: (open: boolean, reason: string) => void;
  readonly title: string;
  readonly children: ReactNode;
  /** Buttons, at the end. */
  readonly footer?: ReactNode;
  readonly width?: 'sm' | 'md' | 'lg';
}

const fields =
  'input:not(:disabled, [type="radio"], [type="checkbox"]), textarea:not(:disabled), select:not(:disabled)';

const widths = { sm: 'max-w-md', md: 'max-w-xl', lg: 'max-w-4xl' };

export function Dialog({ open, onOpenChange, title, children, footer, width = 'md' }: DialogProps) {
  const body = useRef<HTMLDivElement>(null);
  /** The field that asks for it, else the first: not the button that closes. */
  const firstField = (by: string): HTMLElement | true => {
    const { activeElement } = document;
    if (activeElement instanceof HTMLElement && body.current?.contains(activeElement) === true) {
      return activeElement;
    }
    // A keyboard on the screen would cover what the dialog says.
    if (by === 'touch') return true;
    return body.current?.querySelector<HTMLElement>(fields) ?? true;
  };
  return (
    <BaseDialog.Root open={open} onOpenChange={(next, { reason }) => onOpenChange(next, reason)}>
      <BaseDialog.Portal>
        <BaseDialog.Backdrop className={backdrop} />
        <BaseDialog.Popup initialFocus={firstField} className={cx(popup, centred, widths[width])}>
          <header className="flex items-center justify-between gap-2 border-b border-line py-2 pr-2 pl-4">
            <BaseDialog.Title className="text-base font-semibold">{title}</BaseDialog.Title>
            <BaseDialog.Close render={<IconButton label="Close" />}>
              <X aria-hidden size={16} />
            </BaseDialog.Close>
          </header>
          <div ref={body} className="min-h-0 flex-1 overflow-y-auto p-4">
            {children}
          </div>
          {footer === undefined ? null : (
            <footer className="flex flex-wrap justify-end gap-2 border-t border-line p-3">
              {footer}
            </footer>
          )}
        </BaseDialog.Popup>
      </BaseDialog.Portal>
    </BaseDialog.Root>
  );
}

interface FormDialogProps extends Pick<DialogProps, 'title' | 'width' | 'children'> {
  /** The verb of what is sent, such as "Create the key". */
  readonly action: string;
  /** Whether it is being sent, or cannot be sent yet. */
  readonly isDisabled: boolean;
  readonly onSubmit: () => void;
  readonly onClose: () => void;
  /** Another button, at the beginning. */
  readonly other?: ReactNode;
}

/** A dialog that is one form. */
export function FormDialog(props: FormDialogProps) {
  const { title, width = 'md', action, isDisabled, onSubmit, onClose, other, children } = props;
  const id = useId();
  return (
    <Dialog
      open
      onOpenChange={onClose}
      title={title}
      width={width}
      footer={
        <>
          {other}
          <Button onClick={onClose}>Cancel</Button>
          <Button kind="primary" type="submit" form={id} disabled={isDisabled}>
            {action}
          </Button>
        </>
      }
    >
      <form
        id={id}
        className="flex flex-col gap-4"
        onSubmit={(event) => {
          event.preventDefault();
          onSubmit();
        }}
      >
        {children}
      </form>
    </Dialog>
  );
}

interface ConfirmProps {
  readonly open: boolean;
  readonly onOpenChange: (open: boolean) => void;
  readonly title: string;
  /** What will happen. */
  readonly children: ReactNode;
  /** The verb of what is confirmed, such as "Revoke the key". */
  readonly action: string;
  readonly onConfirm: () => void;
  readonly isBusy?: boolean;
  /** A word that has to be typed, before something that affects everyone. */
  readonly typed?: string;
  /** What the button says that changes nothing. Default: Cancel. */
  readonly dismiss?: string;
}

/** Before something that cannot be undone. */
export function Confirm(props: ConfirmProps) {
  const { open, onOpenChange, title, children, action, onConfirm, isBusy = false, typed } = props;
  const { dismiss = 'Cancel' } = props;
  const [text, setText] = useState('');
  const isTyped = typed === undefined || text.trim().toLowerCase() === typed;
  return (
    <AlertDialog.Root open={open} onOpenChange={onOpenChange}>
      <AlertDialog.Portal>
        <AlertDialog.Backdrop className={backdrop} />
        <AlertDialog.Popup className={cx(popup, centred, widths.sm)}>
          <div className="overflow-y-auto p-4">
            <AlertDialog.Title className="text-base font-semibold">{title}</AlertDialog.Title>
            <AlertDialog.Description render={<div className="mt-2 text-sm text-muted" />}>
              {children}
            </AlertDialog.Description>
            {typed === undefined ? null : (
              <label className="mt-3 flex flex-col gap-1 text-sm">
                <span>
                  Type <strong className="font-mono font-semibold">{typed}</strong> to confirm
                </span>
                <Input
                  autoComplete="off"
                  spellCheck={false}
                  value={text}
                  onChange={(event) => setText(event.target.value)}
                />
              </label>
            )}
          </div>
          <footer className="flex justify-end gap-2 border-t border-line p-3">
            <AlertDialog.Close render={<Button />}>{dismiss}</AlertDialog.Close>
            <Button kind="danger" disabled={isBusy || !isTyped} onClick={onConfirm}>
              {action}
            </Button>
          </footer>
        </AlertDialog.Popup>
      </AlertDialog.Portal>
    </AlertDialog.Root>
  );
}

interface MenuItem {
  readonly label: ReactNode;
  readonly onSelect: () => void;
  readonly kind?: 'danger';
  /** Why it cannot be chosen. */
  readonly disabledReason?: string | undefined;
}

interface MenuProps {
  /** A button; `triggerLabel` is what is in it. */
  readonly trigger: ReactElement<Record<string, unknown>>;
  readonly triggerLabel: ReactNode;
  readonly items: readonly MenuItem[];
}

export function Menu({ trigger, triggerLabel, items }: MenuProps) {
  return (
    <BaseMenu.Root>
      <BaseMenu.Trigger render={trigger}>{triggerLabel}</BaseMenu.Trigger>
      <BaseMenu.Portal>
        <BaseMenu.Positioner sideOffset={4} align="end" className="z-50">
          <BaseMenu.Popup className={cx(popup, 'min-w-44 p-1')}>
            {items.map((item, index) => (
              <BaseMenu.Item
                key={index}
                disabled={item.disabledReason !== undefined}
                title={item.disabledReason}
                onClick={item.onSelect}
                className={cx(
                  'flex min-h-8 cursor-default items-center gap-2 rounded-sm px-2 text-sm outline-none',
                  'data-disabled:text-faint data-highlighted:bg-hover pointer-coarse:min-h-11',
                  item.kind === 'danger' && 'text-failed',
                )}
              >
                {item.label}
              </BaseMenu.Item>
            ))}
          </BaseMenu.Popup>
        </BaseMenu.Positioner>
      </BaseMenu.Portal>
    </BaseMenu.Root>
  );
}
