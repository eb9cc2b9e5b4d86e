/**
 * xterm writes its colours and sizes into <style> elements, which the content security policy forbids
 * (`style-src 'self'`). So it is opened outside of the document, where the policy does not apply; its style
 * elements stay there, and their text goes into constructed style sheets, which no markup can make.
 */
import type { Terminal } from '@xterm/xterm';

/** Shows the terminal; returns what removes its styles. */
export function openWithStyles(terminal: Terminal, place: HTMLElement): () => void {
  const root = document.createElement('div');
  root.style.height = '100%';
  terminal.open(root);
  const styles = Array.from(root.querySelectorAll('style'), (element) => {
    element.remove();
    return { element, sheet: new CSSStyleSheet() };
  });
  const apply = () => {
    for (const { element, sheet } of styles) sheet.replaceSync(element.textContent);
  };
  // They change with the colours and the size of the font.
  const changes = new MutationObserver(apply);
  for (const { element } of styles) changes.observe(element, { childList: true });
  apply();
  const sheets = new Set(styles.map(({ sheet }) => sheet));
  document.adoptedStyleSheets.push(...sheets);
  place.append(root);
  return () => {
    changes.disconnect();
    root.remove();
    document.adoptedStyleSheets = document.adoptedStyleSheets.filter((sheet) => !sheets.has(sheet));
  };
}
