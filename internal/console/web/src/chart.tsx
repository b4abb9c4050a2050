// A small chart of the last minutes.
import uPlot from "uplot";
import { useEffect, useRef, useState } from "preact/hooks";
import type { Point } from "./metrics";

/** The least time that a chart shows, in seconds. */
const SPAN = 30;

/** The time that a chart shows. The library's own extremes of one point are a day apart. */
function range(plot: uPlot): uPlot.Range.MinMax {
  const times = plot.data[0], end = times.at(-1) ?? Date.now() / 1000;
  return [Math.min(times[0] ?? end, end - SPAN), end];
}

/** Labels of the time axis: half of the last one is right of the chart. */
const clock = new Intl.DateTimeFormat(undefined, { hour: "2-digit", minute: "2-digit", second: "2-digit", hourCycle: "h23" });

/** The charts are drawn with the colors of the page, which change with this. */
const dark = matchMedia("(prefers-color-scheme: dark)");

export function Chart({ title, points, value, tone = "accent" }: { title: string; points: Point[]; value: (point: Point) => number | null; tone?: string }) {
  const parent = useRef<HTMLDivElement>(null);
  const plot = useRef<uPlot | undefined>(undefined);
  const [scheme, setScheme] = useState(dark.matches);
  useEffect(() => {
    const change = () => setScheme(dark.matches);
    dark.addEventListener("change", change);
    return () => dark.removeEventListener("change", change);
  }, []);
  useEffect(() => {
    const element = parent.current!;
    const style = getComputedStyle(document.documentElement);
    const color = (name: string) => style.getPropertyValue(`--${name}`).trim();
    const axis = { stroke: color("muted"), grid: { stroke: color("line"), width: 1 }, ticks: { show: false }, font: "11px system-ui" };
    plot.current = new uPlot({
      width: element.clientWidth, height: 120, padding: [null, 26, null, null], legend: { show: false }, cursor: { show: false },
      scales: { x: { range }, y: { range: (_, min, max) => [Math.min(0, min ?? 0), Math.max(1, (max ?? 0) * 1.1)] } },
      series: [{}, { stroke: color(tone), width: 1.5, fill: color(tone) + "22", points: { show: (plot) => plot.data[0].length === 1 }, spanGaps: true }],
      axes: [{ ...axis, size: 24, space: 90, values: (_, ticks) => ticks.map((tick) => clock.format(tick * 1000)) }, { ...axis, size: 42, space: 30 }],
    }, [[], []], element);
    const resize = new ResizeObserver(() => plot.current?.setSize({ width: element.clientWidth, height: 120 }));
    resize.observe(element);
    return () => { resize.disconnect(); plot.current?.destroy(); };
  }, [scheme]);
  useEffect(() => { plot.current?.setData([points.map((point) => point.time), points.map(value)]); }, [points, scheme]);
  const last = points.length ? value(points[points.length - 1]) : null;
  return <section class="card"><h2>{title} <span class="figure">{last === null ? "" : last.toFixed(last < 10 ? 1 : 0)}</span></h2>
    <div ref={parent} class="chart" role="img" aria-label={`${title} over the last ten minutes`}>{points.length === 0 && <p class="muted chart-wait">measuring…</p>}</div></section>;
}
