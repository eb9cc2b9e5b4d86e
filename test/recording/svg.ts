/**
 * Terminal screens as an animated SVG: all screens in a strip, which moves by one screen per step. Equal
 * lines are stored once. The text is text, and the colours follow the colour scheme of the reader.
 */

/** Characters with the same look. */
export interface Run {
  readonly text: string;
  readonly column: number;
  /** Names of classes, such as `bold cyan`. */
  readonly look: string;
}

export interface Frame {
  readonly rows: readonly (readonly Run[])[];
  readonly ms: number;
}

export interface Size {
  readonly columns: number;
  readonly rows: number;
}

const cell = { width: 8.4, height: 19 };
const margin = 16;

export function svgOf(frames: readonly Frame[], size: Size, title: string): string {
  const width = Math.ceil(size.columns * cell.width) + 2 * margin;
  const height = size.rows * cell.height + 2 * margin;
  const lines = new Map<string, number>();
  const screens = frames.map(({ rows }, at) => {
    const uses = rows.map((row, line) => {
      const text = row.map(textOf).join('');
      if (text === '') return '';
      if (!lines.has(text)) lines.set(text, lines.size);
      return `<use href="#l${lines.get(text)}" y="${(line + 1) * cell.height - 5}"/>`;
    });
    return `<g transform="translate(0 ${at * height})">${uses.join('')}</g>`;
  });
  const total = frames.reduce((sum, { ms }) => sum + ms, 0);
  let passed = 0;
  const steps = frames.map(({ ms }, at) => {
    const percent = ((100 * passed) / total).toFixed(3);
    passed += ms;
    return `${percent}%{transform:translateY(${-at * height}px)}`;
  });
  const last = -(frames.length - 1) * height;
  const definitions = [...lines].map(([text, id]) => `<g id="l${id}">${text}</g>`);
  return [
    `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 ${width} ${height}" width="${width}" height="${height}" role="img" aria-label="${escaped(title)}">`,
    `<title>${escaped(title)}</title>`,
    `<style>${style}@keyframes film{${steps.join('')}100%{transform:translateY(${last}px)}}`,
    `.film{animation:film ${(total / 1_000).toFixed(1)}s step-end infinite}`,
    `@media (prefers-reduced-motion:reduce){.film{animation:none;transform:translateY(${last}px)}}</style>`,
    `<defs>${definitions.join('')}</defs>`,
    `<rect class="back" x="0.5" y="0.5" width="${width - 1}" height="${height - 1}" rx="8"/>`,
    `<svg x="${margin}" y="${margin}" width="${width - 2 * margin}" height="${height - 2 * margin}">`,
    `<g class="film">${screens.join('\n')}</g></svg></svg>\n`,
  ].join('\n');
}

const style = `
text{font:14px ui-monospace,"SF Mono",Menlo,Consolas,"DejaVu Sans Mono",monospace;fill:#1f2328;white-space:pre}
.back{fill:#fff;stroke:#d1d9e0}
.bold{font-weight:600}.dim{fill:#59636e}.italic{font-style:italic}.underline{text-decoration:underline}
.red{fill:#b3261e}.green{fill:#116329}.yellow{fill:#8a5a00}.cyan{fill:#0a6b7c}.cursor{fill:#1f2328}
@media (prefers-color-scheme:dark){
text{fill:#e6edf3}.back{fill:#0d1117;stroke:#30363d}.dim{fill:#9198a1}.cursor{fill:#e6edf3}
.red{fill:#ff8a80}.green{fill:#7ee787}.yellow{fill:#e3b341}.cyan{fill:#76d9e6}}
`;

function textOf({ text, column, look }: Run): string {
  const length = text.length * cell.width;
  const named = look === '' ? '' : ` class="${look}"`;
  // The width of a character differs from font to font.
  return `<text x="${(column * cell.width).toFixed(1)}" textLength="${length.toFixed(1)}"${named}>${escaped(text)}</text>`;
}

function escaped(text: string): string {
  return text
    .replaceAll('&', '&amp;')
    .replaceAll('<', '&lt;')
    .replaceAll('>', '&gt;')
    .replaceAll('"', '&quot;');
}
