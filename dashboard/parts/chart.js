// A chart of stacked bars over time. uPlot draws on a canvas, so the caption has the totals as text.
import uPlot from "uplot";
import { html, useEffect, useRef } from "./html.js";
import { local } from "./time.js";

const color = (name) => {
  const probe = document.createElement("i");
  probe.style.color = `var(--${name})`;
  document.body.append(probe);
  const found = getComputedStyle(probe).color;
  probe.remove();
  return found;
};

/** Draws `series` over `times`. `times` are seconds since 1970, multiples of `bar`, up to `until`. A series has {name, color,
 * values}; the series are stacked. The axis has `bars` times, up to `until`.
 */
export default function Chart({ times, series, label, until, bars, height = 180, bar = 60 }) {
  const box = useRef(null);
  useEffect(() => {
    let chart = null;
    const draw = () => {
      chart?.destroy();
      const axisTimes = Array.from({ length: bars }, (_, index) => (Math.floor(until / bar) - bars + 1 + index) * bar);
      const places = new Map(times.map((time, index) => [time, index]));
      const sums = axisTimes.map(() => 0);
      const stacked = series.map(({ values }) => axisTimes.map((time, index) => (sums[index] += values[places.get(time)] ?? 0)));
      const axis = { stroke: color("muted"), grid: { stroke: color("line"), width: 1 }, ticks: { stroke: color("line"), width: 1 }, font: "13px system-ui" };
      const width = box.current.clientWidth;
      chart = new uPlot({
        width, height, cursor: { show: false }, legend: { show: false },
        tzDate: (at) => (local.value ? new Date(at * 1000) : uPlot.tzDate(new Date(at * 1000), "Etc/UTC")),
        scales: { x: { time: true, range: [axisTimes[0] - bar, axisTimes.at(-1) + bar] }, y: { range: (_, __, most) => [0, Math.max(4, Math.ceil((most ?? 1) * 1.1))] } },
        axes: [{ ...axis, size: 28, space: 90, incrs: [60, 300, 600, 900, 1800, 3600, 7200, 21600, 86400], values: [[60, "{HH}:{mm}", null, null, null, null, null, null, 1]] }, { ...axis, size: 40, incrs: [1, 2, 5, 10, 20, 50, 100, 200, 500, 1000, 5000] }],
        // the tallest series comes first, so that uPlot draws the shorter series over the tallest
        series: [{}, ...series.map((each) => ({ fill: color(each.color), stroke: color(each.color), width: 0, points: { show: false }, paths: uPlot.paths.bars({ size: [0.8, 24] }) })).reverse()],
      }, [axisTimes, ...stacked.reverse()], box.current);
    };
    draw();
    const observer = new ResizeObserver(() => chart && box.current && Math.abs(chart.width - box.current.clientWidth) > 1 && chart.setSize({ width: box.current.clientWidth, height }));
    observer.observe(box.current);
    const scheme = matchMedia("(prefers-color-scheme: dark)");
    const theme = new MutationObserver(draw);
    theme.observe(document.documentElement, { attributes: true, attributeFilter: ["data-theme"] });
    scheme.addEventListener("change", draw);
    return () => (observer.disconnect(), theme.disconnect(), scheme.removeEventListener("change", draw), chart?.destroy());
  }, [JSON.stringify([times, series, Math.floor(until / bar)]), local.value]);
  const total = (values) => values.reduce((sum, each) => sum + (each ?? 0), 0);
  return html`<figure class="chart">
    <div class="chart-box" ref=${box} style=${{ height: `${height}px` }} role="img" aria-label=${`${label}: ${series.map((each) => `${total(each.values)} ${each.name}`).join(", ")}`} />
    <figcaption>${series.map((each) => html`<span key=${each.name}><i class="chart-swatch" style=${{ background: `var(--${each.color})` }} />${each.name} <b class="tabular">${total(each.values)}</b></span>`)}</figcaption>
  </figure>`;
}
