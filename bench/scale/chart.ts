/** Small multiples as SVG: one panel per measure, one line per series, sizes on a logarithmic axis. */

export interface Figure {
  /** The panel. */
  readonly measure: string;
  readonly unit: string;
  /** What `size` counts. */
  readonly axis: string;
  /** The line. */
  readonly series: string;
  readonly size: number;
  readonly value: number;
}

const [width, height] = [280, 190];
/** For the longest label of the last column. */
const rightPx = 20;
const margin = { top: 44, right: 106, bottom: 36, left: 40 };
const perRow = 4;

const style = `
  text { font: 11px system-ui, sans-serif; fill: #333; }
  .title { font-weight: 600; font-size: 12px; }
  .note { fill: #666; }
  .axis { stroke: #bbb; }
  .line { fill: none; stroke-width: 1.8; }
  .s0 { stroke: #0969da; } .s1 { stroke: #bc4c00; }
  text.s0, circle.s0 { stroke: none; fill: #0969da; } text.s1, circle.s1 { stroke: none; fill: #bc4c00; }
  @media (prefers-color-scheme: dark) {
    text { fill: #ddd; } .note { fill: #999; } .axis { stroke: #555; }
    .s0 { stroke: #58a6ff; } .s1 { stroke: #f0883e; }
    text.s0, circle.s0 { fill: #58a6ff; } text.s1, circle.s1 { fill: #f0883e; }
  }`;

export function chartOf(figures: readonly Figure[]): string {
  const panels = [...Map.groupBy(figures, ({ measure }) => measure).values()].filter(hasCourse);
  const series = [...new Set(figures.map((figure) => figure.series))];
  const rows = Math.ceil(panels.length / perRow);
  const drawn = panels.map((panel, n) => {
    const [x, y] = [(n % perRow) * width, Math.floor(n / perRow) * height];
    return `<g transform="translate(${x} ${y})">${panelOf(panel, series)}</g>`;
  });
  const [wide, high] = [perRow * width + rightPx, rows * height];
  const size = `width="${wide}" height="${high}"`;
  return `<svg xmlns="http://www.w3.org/2000/svg" ${size} viewBox="0 0 ${wide} ${high}">
<style>${style}</style>
${drawn.join('\n')}
</svg>
`;
}

/** A measure of one size is no line. */
function hasCourse(panel: readonly Figure[]): boolean {
  return panel.some(({ size }) => size !== panel[0]?.size);
}

function panelOf(panel: readonly Figure[], series: readonly string[]): string {
  const [first] = panel;
  if (first === undefined) return '';
  const sizes = [...new Set(panel.map(({ size }) => size))].toSorted((a, b) => a - b);
  const [least = 1, most = 1] = [sizes[0], sizes.at(-1)];
  const top = Math.max(...panel.map(({ value }) => value)) * 1.1;
  const [left, right] = [margin.left, width - margin.right];
  const bottom = height - margin.bottom;
  const across = Math.log(most / least) || 1;
  const x = (size: number) => left + ((right - left) * Math.log(size / least)) / across;
  const y = (value: number) => bottom - ((bottom - margin.top) * value) / top;
  const parts = [
    `<text class="title" x="8" y="16">${first.measure}</text>`,
    `<text class="note" x="8" y="31">${first.unit}, by ${first.axis}</text>`,
    `<path class="axis" d="M${left} ${margin.top}V${bottom}H${right}" fill="none"/>`,
    `<text class="note" text-anchor="end" x="${left - 4}" y="${margin.top + 4}">${shown(top / 1.1)}</text>`,
    `<text class="note" text-anchor="end" x="${left - 4}" y="${bottom}">0</text>`,
    ...sizes.map(
      (size) =>
        `<text class="note" text-anchor="middle" x="${x(size).toFixed(1)}" y="${bottom + 14}">${power(size)}</text>`,
    ),
  ];
  const labels: { at: number; text: string; index: number }[] = [];
  for (const [index, name] of series.entries()) {
    const line = panel
      .filter((figure) => figure.series === name)
      .toSorted((a, b) => a.size - b.size);
    const last = line.at(-1);
    if (last === undefined) continue;
    const points = line.map(({ size, value }) => `${x(size).toFixed(1)},${y(value).toFixed(1)}`);
    parts.push(`<polyline class="line s${index}" points="${points.join(' ')}"/>`);
    for (const point of points) {
      const [cx, cy] = point.split(',');
      parts.push(`<circle class="s${index}" cx="${cx}" cy="${cy}" r="2.2"/>`);
    }
    labels.push({ at: y(last.value) + 4, text: `${name} ${shown(last.value)}`, index });
  }
  // Labels of lines that end close to each other would overlap.
  labels.sort((a, b) => a.at - b.at);
  for (const [n, label] of labels.entries()) {
    const above = labels[n - 1];
    if (above !== undefined) label.at = Math.max(label.at, above.at + 12);
    parts.push(
      `<text class="s${label.index}" x="${right + 5}" y="${label.at.toFixed(1)}">${label.text}</text>`,
    );
  }
  return parts.join('\n');
}

export function shown(value: number): string {
  if (value >= 100) return Math.round(value).toLocaleString('en');
  return value.toFixed(value >= 10 ? 1 : 2);
}

const superscripts = '⁰¹²³⁴⁵⁶⁷⁸⁹';

function power(size: number): string {
  const exponent = Math.log10(size);
  return Number.isInteger(exponent) && exponent > 1 ? `10${superscripts[exponent]}` : String(size);
}
