// Maps the report's typed charts to ECharts options. What is drawn, from which columns and on which scales, was decided
// when the document was composed; here is only how it looks. Data stand in <script type="application/json"> elements;
// figures come in the unit of the axis.

import * as echarts from "echarts/core";
import { BarChart, CustomChart, LineChart } from "echarts/charts";
import {
  AriaComponent, DataZoomComponent, GridComponent, LegendComponent, MarkAreaComponent, ToolboxComponent, TooltipComponent,
} from "echarts/components";
import { SVGRenderer } from "echarts/renderers";

echarts.use([
  AriaComponent, BarChart, CustomChart, DataZoomComponent, GridComponent, LegendComponent, LineChart, MarkAreaComponent,
  SVGRenderer, ToolboxComponent, TooltipComponent,
]);

type Scale = "linear" | "log2" | "log10" | "category" | "percentile";
interface AxisSpec { name: string; unit: string; scale: Scale }
interface Point { x: number; y: number | null; low?: number | null; high?: number | null; shown: string }
interface MarkSpec { name: string; role: "line" | "ceiling" | "bar" | "second"; partner: number | null; unit: string; points: Point[] }
interface Spec {
  id: string; title: string; summary: string;
  plot: "lines" | "points" | "stacked" | "grouped" | "percentiles" | "series";
  x: AxisSpec; y: AxisSpec; second?: AxisSpec;
  labels: { x: number; label: string; major: boolean }[];
  marks: MarkSpec[];
  measured_from?: number;
  /** End of the horizontal axis of a chart that grows. */
  until?: number;
}
interface Theme { ink: string; muted: string; grid: string; paper: string; lines: string[] }

// Paul Tol's "bright" and Okabe-Ito hues, lightened for dark paper: told apart by people with any colour vision. Symbols differ too.
const LIGHT: Theme = {
  ink: "#1b1f24", muted: "#5b6470", grid: "#e3e6ea", paper: "#ffffff",
  lines: ["#0b62a4", "#c8501a", "#00836b", "#a8478f", "#8a6d00", "#2f9bd6", "#5a5f66", "#b3202c"],
};
const DARK: Theme = {
  ink: "#e8eaed", muted: "#a2abb6", grid: "#2e343c", paper: "#16191d",
  lines: ["#6cb4ee", "#f08a55", "#3fc6a8", "#d78bc4", "#d9b93b", "#a5d8ff", "#b4bac2", "#ff8a8f"],
};
const SYMBOLS = ["circle", "rect", "triangle", "diamond", "emptyCircle", "emptyRect", "emptyTriangle", "emptyDiamond"];
// Dashes of lines, so that they are told apart without colour where there is no room for symbols; the first is solid.
const DASHES: ("solid" | number[])[] = ["solid", [10, 4], [4, 3], [10, 3, 2, 3], [16, 4], [10, 3, 2, 3, 2, 3], [7, 2], [2, 3]];
// Of ceilings: thin, without symbols, and all of them dotted in a rhythm of their own.
const CEILING_DASHES = [[1.5, 3], [6, 3, 1.5, 3], [6, 3, 1.5, 3, 1.5, 3], [12, 3, 1.5, 3]];
// Above bars they are strokes, each shorter than the one before.
const STROKES = [44, 30, 18, 10];
/** Intervals that reach further above the largest figure than this are cut off. */
const FAR = 2;
const FONT = getComputedStyle(document.documentElement).fontFamily;

const log = (scale: Scale) => scale === "log2" || scale === "log10" || scale === "percentile";

/** As many labels as fit: all, or every second, third ... of them, the last one always. */
function thin(values: number[], most: number): number[] {
  const step = Math.ceil(values.length / Math.max(1, most));
  return values.filter((_, i) => (values.length - 1 - i) % step === 0);
}

/** Width of a letter of an axis, about, and height of a line of them. */
const LETTER = 7;
const LINE = 15;
/** Lines a label may take before it is slanted instead. */
const MOST_LINES = 4;
const SLANT = 35;

/** `label` in lines of at most `letters`; null if a word is longer. */
function wrapped(label: string, letters: number): string[] | null {
  const lines: string[] = [];
  for (const word of label.split(" ")) {
    if (word.length > letters) return null;
    const last = lines[lines.length - 1];
    if (last !== undefined && last.length + 1 + word.length <= letters) lines[lines.length - 1] = `${last} ${word}`;
    else lines.push(word);
  }
  return lines;
}

/** The names of places as they are written below a chart that wide: side by side, in lines, or slanted; and the room they take. */
function placed(spec: Spec, width: number): { labels: string[]; rotate: number; gap: number } {
  const labels = spec.labels.map((l) => l.label);
  const letters = Math.floor(((width - 60) / Math.max(1, labels.length) - 12) / LETTER);
  const broken = labels.map((label) => wrapped(label, letters));
  const lines = Math.max(...broken.map((one) => one?.length ?? Infinity));
  if (lines <= MOST_LINES) return { labels: broken.map((one) => one!.join("\n")), rotate: 0, gap: LINE * (lines + 1) };
  const longest = Math.max(...labels.map((label) => label.length));
  return { labels, rotate: SLANT, gap: LETTER * longest * Math.sin((SLANT * Math.PI) / 180) + 1.5 * LINE };
}

function xAxis(spec: Spec, theme: Theme, width: number): object {
  const label = new Map(spec.labels.map((l) => [l.x, l.label]));
  const name = spec.x.unit ? `${spec.x.name} (${spec.x.unit})` : spec.x.name;
  const common = {
    name, nameLocation: "middle", nameGap: 30, nameTextStyle: { color: theme.muted, fontFamily: FONT },
    // Names of places stand below the chart, also where figures are negative.
    axisLine: { onZero: false, lineStyle: { color: theme.muted } }, splitLine: { show: false },
  };
  const text = { color: theme.muted, fontFamily: FONT, hideOverlap: true };
  if (spec.x.scale === "category") {
    // Every bar keeps its name. Numbers that count up (trials) say themselves what stands between two of them: as many are left out as
    // have no room.
    const names = spec.labels.map((l) => l.label);
    const counted = names.length > 1 && names.every((l, i) => i === 0 || Number(l) === Number(names[i - 1]) + 1);
    const { labels, rotate, gap } = counted ? { labels: names, rotate: 0, gap: 2 * LINE } : placed(spec, width);
    const step = counted ? Math.ceil((labels.length * 30) / Math.max(width - 120, 30)) : 1;
    return {
      ...common, nameGap: gap, type: "category", data: labels, axisTick: { alignWithLabel: true },
      axisLabel: { ...text, hideOverlap: false, interval: step - 1, rotate, lineHeight: LINE },
    };
  }
  if (spec.labels.length === 0) return { ...common, type: "value", axisLabel: text, max: spec.until ?? "dataMax" };
  const xs = thin(spec.labels.filter((l) => l.major).map((l) => l.x), width / 64);
  const all = spec.labels.map((l) => l.x);
  return {
    ...common, type: log(spec.x.scale) ? "log" : "value", logBase: spec.x.scale === "log2" ? 2 : 10,
    min: log(spec.x.scale) ? Math.min(...all.filter((x) => x > 0)) : Math.min(0, ...all), max: Math.max(...all),
    axisTick: { customValues: spec.labels.filter((l) => l.major).map((l) => l.x) }, minorTick: { show: false },
    axisLabel: { ...text, customValues: xs, formatter: (v: number) => nearest(label, v) },
  };
}

/** ECharts hands back values of a log axis with rounding errors. */
function nearest(labels: Map<number, string>, value: number): string {
  for (const [x, label] of labels) if (Math.abs(x - value) <= 1e-6 * Math.max(1, Math.abs(x))) return label;
  return "";
}

function plain(value: number): string {
  return value !== 0 && (Math.abs(value) < 1e-3 || Math.abs(value) >= 1e6) ? value.toExponential(0) : String(+value.toPrecision(6));
}

/** Where an axis begins: at zero, or, of values below it, where ECharts rounds to; a scale of tens has no zero. */
function least(axis: AxisSpec, values: (number | null | undefined)[]): number | undefined {
  return log(axis.scale) || values.some((value) => value != null && value < 0) ? undefined : 0;
}

/** The figures of a chart on its first or second axis, ends of intervals included. */
function figures(spec: Spec, second: boolean): (number | null | undefined)[] {
  const marks = spec.marks.filter((mark) => (mark.role === "second") === second);
  return marks.flatMap((mark) => mark.points.flatMap((p) => [p.y, p.low]));
}

function yAxis(spec: Spec, axis: AxisSpec, theme: Theme, second: boolean): object {
  return {
    type: log(axis.scale) ? "log" : "value", logBase: 10, min: least(axis, figures(spec, second)),
    name: axis.unit ? `${axis.name} (${axis.unit})` : axis.name, nameLocation: "end", nameGap: 12,
    nameTextStyle: { color: theme.muted, align: second ? "right" : "left", fontFamily: FONT },
    axisLabel: { color: theme.muted, fontFamily: FONT, formatter: plain },
    splitLine: { show: !second, lineStyle: { color: theme.grid } }, minInterval: second ? 1 : undefined,
    // A single event is a short bar: its height says how many there were.
    max: second ? (range: { max: number }) => (range.max < FEW ? FEW : null) : undefined,
  };
}

/** Height of a row of a forest plot, of one whose label may need two lines, and of what stands around the rows. */
const ROW = 26;
const HIGH_ROW = 36;
const AROUND = 84;
/** Narrower than this, labels of a forest plot are broken into lines. */
const WIDE = 600;
/** A count on the second axis below this does not fill the height of the chart. */
const FEW = 10;

/** Ends of the horizontal axis of a forest plot: no change, every point, and intervals that would not dwarf the points. */
function reach(spec: Spec): [number, number] {
  const points = spec.marks.flatMap((mark) => mark.points).filter((p) => p.y !== null);
  const most = Math.max(0, ...points.map((p) => Math.abs(p.y!)));
  const far = most > 0 ? FAR * most : Infinity;
  const ends = points.flatMap((p) => [p.y!, Math.max(p.low ?? p.y!, -far), Math.min(p.high ?? p.y!, far)]);
  const [low, high] = [Math.min(0, ...ends), Math.max(0, ...ends)];
  const room = 0.06 * (high - low || 1);
  return [low < 0 ? low - room : 0, high > 0 ? high + room : 0];
}

/** The axes of a forest plot: places from top to bottom, figures from left to right. */
function forest(spec: Spec, theme: Theme, width: number): { xAxis: object; yAxis: object } {
  const [min, max] = reach(spec);
  const text = { color: theme.muted, fontFamily: FONT };
  const rounded = (value: number) => plain(+value.toPrecision(2));
  return {
    xAxis: {
      type: "value", min, max, name: spec.y.unit ? `${spec.y.name} (${spec.y.unit})` : spec.y.name, nameLocation: "middle", nameGap: 30,
      nameTextStyle: text, axisLabel: { ...text, formatter: rounded, showMinLabel: false, showMaxLabel: false },
      axisTick: { show: false }, axisLine: { show: false }, splitLine: { lineStyle: { color: theme.grid } },
    },
    yAxis: {
      type: "category", inverse: true, data: spec.labels.map((l) => l.label), axisTick: { show: false }, axisLine: { show: false },
      axisLabel: { ...text, color: theme.ink, interval: 0, width: Math.min(300, 0.42 * width), overflow: width < WIDE ? "break" : "truncate", lineHeight: 14 },
    },
  };
}

/** A scale of tens has no place for zero and less. */
function drawable(spec: Spec, y: number | null): number | null {
  return y !== null && log(spec.y.scale) && y <= 0 ? null : y;
}

/** The intervals of estimates: a whisker at each point and a band between neighbours, broken where a figure is missing. */
function band(spec: Spec, mark: MarkSpec, color: string): object | null {
  const known = (p: Point) => [p.y, p.low, p.high].every((end) => drawable(spec, end ?? null) !== null);
  const runs: Point[][] = [[]];
  for (const point of mark.points) {
    if (known(point)) runs[runs.length - 1].push(point);
    else runs.push([]);
  }
  const points = runs.flat();
  const most = Math.max(...spec.marks.flatMap((m) => m.points.map((p) => Math.abs(p.y ?? 0))));
  if (points.length === 0) return null;
  const lying = spec.plot === "points";
  const placed = (x: number, y: number) => (lying ? [y, x] : [x, y]);
  return {
    type: "custom", name: mark.name, silent: true, clip: true, z: 1, tooltip: { show: false }, itemStyle: { color },
    // The first item draws all; the others make room for the intervals on the axis, but for those that would dwarf the data.
    data: [placed(points[0].x, points[0].y!), ...points.flatMap((p) => [placed(p.x, p.low!), placed(p.x, Math.min(p.high!, FAR * most))])],
    renderItem: (item: { dataIndex: number }, api: any) => {
      if (item.dataIndex > 0) return undefined;
      const at = (x: number, y: number) => api.coord(placed(x, y));
      const bands = runs.filter((run) => run.length > 1 && !lying).map((run) => {
        const outline = [...run.map((p) => at(p.x, p.high!)), ...run.slice().reverse().map((p) => at(p.x, p.low!))];
        return { type: "polygon", shape: { points: outline }, style: { fill: color, opacity: 0.16 } };
      });
      const whiskers = points.map((p) => {
        const [[x1, y1], [x2, y2]] = [at(p.x, p.high!), at(p.x, p.low!)];
        return { type: "line", shape: { x1, y1, x2, y2 }, style: { stroke: color, lineWidth: 1.5, opacity: 0.8 } };
      });
      return { type: "group", children: [...bands, ...whiskers] };
    },
  };
}

/** A line at no change. */
function zero(theme: Theme): object {
  return {
    type: "custom", silent: true, z: 1, tooltip: { show: false }, data: [[0, 0]],
    renderItem: (params: any, api: any) => {
      const { y, height } = params.coordSys;
      const x = api.coord([0, 0])[0];
      return { type: "line", shape: { x1: x, y1: y, x2: x, y2: y + height }, style: { stroke: theme.ink, lineWidth: 1.25 } };
    },
  };
}

function series(spec: Spec, theme: Theme): object[] {
  const category = spec.x.scale === "category";
  const out: object[] = [];
  let nth = 0;
  let nthCeiling = 0;
  const colorOf: string[] = [];
  spec.marks.forEach((mark, i) => {
    const ceiling = mark.role === "ceiling";
    const color = ceiling ? (mark.partner === null ? theme.muted : colorOf[mark.partner]) : theme.lines[nth % theme.lines.length];
    colorOf[i] = color;
    const data = mark.points.map((p) => ({ value: category ? drawable(spec, p.y) : [p.x, drawable(spec, p.y)], shown: p.shown }));
    if (ceiling && spec.plot === "grouped") {
      // A bar's ceiling is a line above it, not another bar.
      out.push({ type: "line", name: mark.name, data, symbol: "rect", symbolSize: [STROKES[nthCeiling % STROKES.length], 2.5], lineStyle: { opacity: 0 }, itemStyle: { color: theme.ink }, z: 4 });
    } else if (spec.plot === "stacked" || spec.plot === "grouped") {
      out.push({
        type: "bar", name: mark.name, data, stack: spec.plot === "stacked" ? "all" : undefined, itemStyle: { color }, barMaxWidth: 44,
        emphasis: { focus: "series" },
      });
    } else if (mark.role === "second") {
      out.push({ type: "bar", name: mark.name, data, yAxisIndex: 1, itemStyle: { color: theme.lines[7], opacity: 0.55 }, barMaxWidth: 14 });
    } else {
      const points = spec.plot === "points";
      const whisker = ceiling || (category && !points) ? null : band(spec, mark, color);
      const dense = mark.points.length > 60;
      out.push({
        type: "line", name: mark.name, data, symbol: ceiling ? "none" : SYMBOLS[nth % SYMBOLS.length], symbolSize: 7, z: 3,
        showSymbol: !dense, itemStyle: { color },
        lineStyle: {
          color, width: points ? 0 : ceiling ? 1.75 : 2.25, cap: "butt",
          type: ceiling ? CEILING_DASHES[nthCeiling % CEILING_DASHES.length] : DASHES[nth % DASHES.length],
        },
        connectNulls: false, emphasis: { focus: ceiling ? "none" : "series" },
      });
      // Behind its line, but after it: the legend takes its symbol from the first series of a name.
      if (whisker) out.push(whisker);
    }
    if (ceiling) nthCeiling += 1;
    else if (mark.role !== "second") nth += 1;
  });
  if (spec.plot === "points") out.push(zero(theme));
  if (spec.measured_from && out.length > 0) {
    (out[0] as any).markArea = {
      silent: true, itemStyle: { color: theme.muted, opacity: 0.12 },
      label: { color: theme.muted, position: "insideTop", fontFamily: FONT },
      data: [[{ name: "warm-up", xAxis: 0 }, { xAxis: spec.measured_from }]],
    };
  }
  return out;
}

const escaped = (text: string) => text.replace(/[&<>"]/g, (c) => ({ "&": "&amp;", "<": "&lt;", ">": "&gt;", '"': "&quot;" })[c]!);

function tooltip(spec: Spec, theme: Theme): object {
  return {
    trigger: "axis", confine: true, backgroundColor: theme.paper, borderColor: theme.grid, textStyle: { color: theme.ink, fontFamily: FONT, fontSize: 13 },
    axisPointer: { type: "line", lineStyle: { color: theme.muted } },
    formatter: (items: any[]) => {
      const shown = items.filter((item) => item.seriesType !== "custom" && item.data?.shown);
      if (shown.length === 0) return "";
      const x = shown[0].axisValue;
      const label = typeof x === "number" ? nearest(new Map(spec.labels.map((l) => [l.x, l.label])), x) || plain(+x.toPrecision(4)) : x;
      const unit = spec.labels.length === 0 && spec.x.unit ? ` ${spec.x.unit}` : "";
      const rows = shown.map((item) => `${item.marker}${escaped(item.seriesName)} <b>${escaped(item.data.shown)}</b>`);
      return [`${escaped(spec.x.name)} ${escaped(String(label))}${unit}`, ...rows].join("<br>");
    },
  };
}

/** An entry of the legend: measured series have their line and symbol, ceilings their line or stroke alone. */
function entry(spec: Spec, mark: MarkSpec): object {
  if (mark.role !== "ceiling") return { name: mark.name };
  if (spec.plot !== "grouped") return { name: mark.name, itemStyle: { opacity: 0 } };
  const stroke = STROKES[spec.marks.filter((m) => m.role === "ceiling").indexOf(mark) % STROKES.length];
  // The frame without area keeps the stroke's length in proportion.
  return { name: mark.name, icon: `path://M0 0zM${STROKES[0]} 14zM${(STROKES[0] - stroke) / 2} 5h${stroke}v4h-${stroke}z` };
}

function option(spec: Spec, theme: Theme, width: number, tools: boolean): object {
  const narrow = width < 520;
  const rows = Math.ceil(spec.marks.reduce((sum, m) => sum + 60 + 7 * m.name.length, 0) / Math.max(200, width - (narrow ? 10 : 90)));
  const legend = spec.marks.length > 1;
  const top = legend ? 22 + 22 * rows : narrow ? 12 : 28;
  return {
    animation: false, backgroundColor: "transparent", textStyle: { fontFamily: FONT },
    // Bars are told apart by their pattern where paper may have no colour.
    aria: { enabled: true, label: { description: spec.summary }, decal: { show: !tools && spec.marks.length > 1 } },
    grid: { left: 8, right: spec.second ? 12 : 18, top: top + 14, bottom: 34, outerBoundsMode: "same", outerBoundsContain: "axisLabel" },
    legend: legend
      ? { type: "plain", top: 0, left: 0, width: width - (narrow ? 0 : 90), itemWidth: 38, textStyle: { color: theme.ink, fontFamily: FONT }, data: spec.marks.map((m) => entry(spec, m)) }
      : undefined,
    toolbox: narrow || !tools || spec.until ? undefined : {
      top: 0, right: 0, itemSize: 14, iconStyle: { borderColor: theme.muted },
      feature: {
        ...(spec.x.scale === "category" ? {} : { dataZoom: { yAxisIndex: false, title: { zoom: "zoom", back: "undo zoom" } } }),
        restore: { title: "reset" },
        saveAsImage: { title: "save as SVG", name: spec.id, type: "svg", backgroundColor: theme.paper },
      },
    },
    tooltip: tooltip(spec, theme),
    ...(spec.plot === "points" ? forest(spec, theme, width) : standing(spec, theme, width)),
    series: series(spec, theme),
  };
}

/** The axes of every other chart. */
function standing(spec: Spec, theme: Theme, width: number): { xAxis: object; yAxis: object } {
  return {
    xAxis: xAxis(spec, theme, width),
    yAxis: spec.second ? [yAxis(spec, spec.y, theme, false), yAxis(spec, spec.second, theme, true)] : yAxis(spec, spec.y, theme, false),
  };
}

interface Drawn { chart: echarts.ECharts; spec: Spec; box: HTMLElement }
const dark = matchMedia("(prefers-color-scheme: dark)");
const drawn: Drawn[] = [];
// A4 less its margins, at 96 px per inch, and half of it; the height is that of .plot in print.
const PAPER = { width: 680, half: 325, height: 240 };

function draw({ chart, spec, box }: Drawn, paper?: typeof PAPER): void {
  // A forest plot is as high as it has rows.
  const lying = spec.plot === "points";
  const width = paper ? (box.closest(".half") ? paper.half : paper.width) : box.clientWidth;
  if (lying) box.style.height = `${AROUND + (width < WIDE ? HIGH_ROW : ROW) * spec.labels.length}px`;
  const height = paper && !lying ? paper.height : box.clientHeight;
  if (width === 0) return;
  chart.resize({ width, height });
  const shown = option(spec, dark.matches && !paper ? DARK : LIGHT, width, !paper);
  chart.setOption(shown as echarts.EChartsCoreOption, true);
  chart.getZr().flush();
}

/** Draws `spec` in `box`, which may have another chart already; nothing if there is no spec. A page that changes sends the event. */
function renew(event: Event): void {
  const { box, spec } = (event as CustomEvent<{ box: HTMLElement; spec: Spec | null }>).detail;
  box.hidden = spec === null;
  if (spec === null) return;
  let one = drawn.find((known) => known.box === box);
  if (one) one.spec = spec;
  else drawn.push((one = { chart: echarts.init(box, undefined, { renderer: "svg" }), spec, box }));
  draw(one);
}

function start(): void {
  document.addEventListener("linerate-chart", renew);
  for (const details of document.querySelectorAll<HTMLDetailsElement>("details[data-folded]")) details.open = false;
  for (const box of document.querySelectorAll<HTMLElement>(".plot[data-chart]")) {
    const data = document.getElementById(box.dataset.chart!);
    if (!data?.textContent) continue;
    box.hidden = false;
    try {
      const one = { chart: echarts.init(box, undefined, { renderer: "svg" }), spec: JSON.parse(data.textContent) as Spec, box };
      draw(one);
      drawn.push(one);
    } catch (error) {
      // One chart that cannot be drawn leaves its table, and the others.
      box.hidden = true;
      const details = box.parentElement?.querySelector("details");
      if (details) details.open = true;
      console.error(data.id, error);
    }
  }
  let width = innerWidth;
  let later = 0;
  addEventListener("resize", () => {
    clearTimeout(later);
    later = setTimeout(() => {
      if (innerWidth !== width) drawn.forEach((one) => draw(one));
      width = innerWidth;
    }, 120);
  });
  dark.addEventListener("change", () => drawn.forEach((one) => draw(one)));
  // On paper charts take the width of the page, or half of it, and light colours.
  addEventListener("beforeprint", () => drawn.forEach((one) => draw(one, PAPER)));
  addEventListener("afterprint", () => drawn.forEach((one) => draw(one)));
}

start();
