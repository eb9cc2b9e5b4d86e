/**
 * The document that xterm creates its elements with. It writes its colours and sizes into <style> elements,
 * which the content security policy forbids (`style-src 'self'`). A style element of this document has its
 * text in a constructed style sheet instead, which the policy allows because no markup can make one.
 */
export interface StyledDocument {
  /** For xterm's option `documentOverride`. */
  readonly document: Document;
  dispose(): void;
}

export function styledDocument(): StyledDocument {
  const sheets = new Set<CSSStyleSheet>();
  const createElement = (name: string) => {
    const element = document.createElement(name);
    if (name !== 'style') return element;
    const sheet = new CSSStyleSheet();
    sheets.add(sheet);
    document.adoptedStyleSheets.push(sheet);
    Object.defineProperty(element, 'textContent', {
      get: () => '',
      set(css: string) {
        sheet.replaceSync(css);
      },
    });
    return element;
  };
  return {
    document: new Proxy(document, {
      get: (target, name) => {
        if (name === 'createElement') return createElement;
        const value: unknown = Reflect.get(target, name, target);
        return typeof value === 'function' ? value.bind(target) : value;
      },
    }),
    dispose: () => {
      document.adoptedStyleSheets = document.adoptedStyleSheets.filter(
        (sheet) => !sheets.has(sheet),
      );
    },
  };
}
