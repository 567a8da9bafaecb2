// Charts by Observable Plot. Each answers an element that fits the width it is given.
(() => {
  "use strict";
  const tfio = (globalThis.tfio ??= {});
  const { fluid } = tfio.dom;
  const format = tfio.format;

  const BAR = "var(--bar)";
  const ODD = "var(--odd)";
  const INK = "var(--ink)";
  const TICK_WIDTH = 70;
  const WIDEST_SHARD = 60;
  /** The margins of charts without names on their axes, and of those with some. */
  const BARE = { marginLeft: 44, marginRight: 16, marginTop: 12, marginBottom: 30 };
  const LABELLED = { marginLeft: 64, marginRight: 16, marginTop: 24, marginBottom: 36 };

  /** A plot that `options(width)` describes, drawn to the width of the page. `label` says to those
   * who do not see it what it shows. */
  function chart(label, options) {
    const draw = (width) => {
      const plot = Plot.plot({ className: "chart", width, ariaLabel: label, style: { overflow: "visible" }, ...options(width) });
      // The page's own style has these rules; its policy allows no others.
      for (const style of plot.querySelectorAll("style")) style.remove();
      const svg = plot instanceof SVGElement ? plot : plot.querySelector("svg");
      svg.setAttribute("role", "img");
      // Its label speaks for all of it: Plot's own, on groups, are not allowed beside it.
      for (const group of svg.querySelectorAll("g[aria-label]")) group.removeAttribute("aria-label");
      return plot;
    };
    return fluid(draw, { class: "plot" });
  }

  /** Counts have no halves. */
  const wholeOnly = (n) => (Number.isInteger(n) ? format.brief(n) : "");

  const ticks = (width) => Math.max(2, Math.floor(width / TICK_WIDTH));

  /** Bars of a histogram of a feature's values, behind them the middle half and the median. */
  function histogram(found, { label, isMoment = false, unit = "", quantiles = [], height = 170, show = format.number, bytes = false }) {
    const at = (n) => (isMoment ? format.date(n, unit) : n);
    const bins = found.counts.map((count, i) => ({ x1: at(found.edges[i]), x2: at(found.edges[i + 1]), count, i }));
    const title = (bin) => `${show(found.edges[bin.i])} to ${show(found.edges[bin.i + 1])}\n${format.count(bin.count)}`;
    const type = isMoment ? "utc" : found.log ? (found.edges[0] > 0 ? "log" : "symlog") : "linear";
    const middle = quantiles.length === 9 ? [{ x1: at(quantiles[3]), x2: at(quantiles[5]) }] : [];
    const median = quantiles.length === 9 ? [at(quantiles[4])] : [];
    return chart(label, (width) => ({
      ...BARE,
      height,
      x: {
        type,
        label: isMoment ? null : unit || null,
        ticks: bytes && type === "linear" ? format.byteTicks(found.edges.at(-1), ticks(width)).filter((n) => n >= found.edges[0]) : ticks(width),
        tickFormat: isMoment ? undefined : bytes ? format.bytes : format.brief,
      },
      y: { label: null, ticks: 3, tickFormat: wholeOnly, zero: true },
      marks: [
        Plot.rectX(middle, { x1: "x1", x2: "x2", fill: INK, fillOpacity: 0.07 }),
        Plot.gridY({ ticks: 3 }),
        Plot.rectY(bins, { x1: "x1", x2: "x2", y: "count", fill: BAR, insetLeft: 0.5, insetRight: 0.5 }),
        Plot.ruleX(median, { stroke: INK, strokeDasharray: "3,2" }),
        Plot.ruleY([0], { stroke: INK, strokeOpacity: 0.5 }),
        Plot.tip(bins, Plot.pointerX({ x1: "x1", x2: "x2", y: "count", title })),
      ],
    }));
  }

  /** A bar for each class, in the order of its number. */
  function classes(top, { label, height = 170 }) {
    // "3 (cat)" is class 3.
    const bars = top.map((one) => ({ x: parseInt(one.value), value: one.value, count: one.count })).sort((a, b) => a.x - b.x);
    return chart(label, (width) => ({
      ...BARE,
      height,
      x: {
        type: "band",
        domain: bars.map((bar) => bar.x),
        label: null,
        padding: 0.15,
        ticks: bars.filter((_, i) => i % Math.ceil((bars.length * 26) / (width - 60)) === 0).map((bar) => bar.x),
      },
      y: { label: null, ticks: 3, tickFormat: wholeOnly, zero: true },
      marks: [
        Plot.gridY({ ticks: 3 }),
        Plot.barY(bars, { x: "x", y: "count", fill: BAR }),
        Plot.ruleY([0], { stroke: INK, strokeOpacity: 0.5 }),
        Plot.tip(bars, Plot.pointerX({ x: "x", y: "count", title: (bar) => `${bar.value}\n${format.count(bar.count)}` })),
      ],
    }));
  }

  /** Shards side by side; `field` is "nbytes" or "records". Odd ones stand out, and the median is a line. */
  function shards(bars, { field, median, label, axis, show }) {
    const strips = bars
      .filter((bar) => bar[field] !== null)
      .map((bar) => ({ x1: bar.first - 0.5, x2: bar.first + bar.shards - 0.5, y: bar[field], odd: bar.odd, bar }));
    const last = strips.reduce((most, strip) => Math.max(most, strip.x2), 0);
    const title = ({ bar }) => {
      const more = bar.shards > 1 ? `\nthe largest of ${format.count(bar.shards)} neighbours` : "";
      const records = bar.records === null ? "" : `\n${format.many(bar.records, "record")}`;
      return `${bar.name}\n${format.bytes(bar.nbytes)}, ${format.number(bar.factor)}× the median${records}${more}`;
    };
    const most = Math.max(...strips.map((strip) => strip.y));
    const bytes = field === "nbytes" ? format.byteTicks(most, 4) : 4;
    const options = (width) => ({
      width,
      height: 160,
      ...LABELLED,
      x: { label: "shard", ticks: d3.ticks(0, Math.ceil(last - 1), ticks(width)).filter(Number.isInteger), tickFormat: format.count },
      y: { label: axis, ticks: bytes, tickFormat: show, zero: true },
      marks: [
        Plot.gridY({ ticks: bytes }),
        Plot.rectY(strips, {
          x1: "x1", x2: "x2", y: "y", fill: (strip) => (strip.odd ? ODD : BAR),
          ...(strips.length < width / 6 ? { insetLeft: 0.5, insetRight: 0.5 } : {}),
        }),
        Plot.ruleY(median === null ? [] : [median], { stroke: INK, strokeDasharray: "3,2" }),
        Plot.ruleY([0], { stroke: INK, strokeOpacity: 0.5 }),
        // An odd shard is a narrow strip among thousands: a mark on top shows it.
        Plot.dot(strips.filter((strip) => strip.odd), { x: (strip) => (strip.x1 + strip.x2) / 2, y: "y", fill: ODD, symbol: "triangle2", r: 4, dy: -8 }),
        Plot.tip(strips, Plot.pointerX({ x1: "x1", x2: "x2", y: "y", title, lineWidth: 40 })),
      ],
    });
    return chart(label, (room) => options(Math.min(room, 100 + WIDEST_SHARD * last)));
  }

  /** The smallest, median and largest record of each block, along the dataset. */
  function sizes(found, { label }) {
    const least = found.reduce((low, size) => Math.min(low, size.least), Infinity);
    const most = found.reduce((high, size) => Math.max(high, size.most), 0);
    const log = most > 20 * Math.max(1, least);
    const floor = (n) => (log ? Math.max(1, n) : n);
    const marks = log ? powers(floor(least), most) : format.byteTicks(most, 4);
    const title = (size) =>
      `${format.number(100 * size.at)} % into the dataset, shard ${format.count(size.shard)}\n` +
      `median ${format.bytes(size.median)}\n${format.bytes(size.least)} to ${format.bytes(size.most)}`;
    return chart(label, (width) => ({
      height: 200,
      ...LABELLED,
      x: { domain: [0, 1], label: "how far into the dataset", ticks: ticks(width), percent: false, tickFormat: (n) => `${Math.round(100 * n)} %` },
      y: {
        label: `bytes of a record${log ? ", log scale" : ""}`, ticks: marks, tickFormat: format.bytes,
        ...(log ? { type: "log", base: 2, domain: [marks[0], marks.at(-1)] } : { zero: true }),
      },
      marks: [
        Plot.gridY({ ticks: marks }),
        Plot.ruleX(found, { x: "at", y1: (size) => floor(size.least), y2: "most", stroke: BAR, strokeOpacity: 0.45, strokeWidth: 2 }),
        Plot.dot(found, { x: "at", y: (size) => floor(size.median), fill: BAR, r: 2.5 }),
        Plot.tip(found, Plot.pointerX({ x: "at", y: (size) => floor(size.median), title, lineWidth: 40 })),
      ],
    }));
  }

  /** Powers of two for an axis of bytes, at most six. */
  function powers(least, most) {
    const low = Math.floor(Math.log2(least));
    const high = Math.ceil(Math.log2(most));
    const step = Math.max(1, Math.ceil((high - low) / 5));
    return Array.from({ length: Math.ceil((high - low) / step) + 1 }, (_, i) => 2 ** (low + i * step));
  }

  /** Where damage lies: a line for each shard, marks at their offsets. */
  function damage(found, { label }) {
    const rows = found.map((one) => {
      const from = one.shard_nbytes ? one.offset / one.shard_nbytes : 0;
      const length = one.shard_nbytes && one.nbytes ? one.nbytes / one.shard_nbytes : 0;
      return { one, shard: one.shard, from: Math.min(1, from), to: Math.min(1, from + length) };
    });
    const shards = [...new Set(rows.map((row) => row.shard))].sort((a, b) => a - b);
    const title = ({ one }) =>
      `${one.name}\noffset ${format.count(one.offset)}${one.nbytes === null ? "" : `, ${format.many(one.nbytes, "byte")}`}\n${one.reason}`;
    return chart(label, (width) => ({
      height: 60 + 18 * Math.min(shards.length, 40),
      ...LABELLED,
      x: { domain: [0, 1], label: "how far into the shard", ticks: ticks(width), tickFormat: (n) => `${Math.round(100 * n)} %` },
      y: { type: "band", domain: shards, label: "shard", padding: 0.3, ticks: shards.filter((_, i) => i % Math.ceil(shards.length / 40) === 0), tickFormat: (n) => format.count(n) },
      marks: [
        Plot.barX(shards, { x1: 0, x2: 1, y: (shard) => shard, fill: INK, fillOpacity: 0.08, rx: 3 }),
        Plot.barX(rows, { x1: "from", x2: "to", y: "shard", fill: ODD }),
        Plot.tickX(rows, { x: "from", y: "shard", stroke: ODD, strokeWidth: 3 }),
        Plot.tip(rows, Plot.pointer({ x: "from", y: "shard", title, lineWidth: 40 })),
      ],
    }));
  }

  tfio.charts = { classes, damage, histogram, shards, sizes };
})();
