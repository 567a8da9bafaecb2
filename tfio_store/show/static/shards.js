// Shards side by side, the sizes of records along the dataset, and where damage lies.
(() => {
  "use strict";
  const tfio = (globalThis.tfio ??= {});
  const { el, table, titled } = tfio.dom;
  const { charts, format } = tfio;

  const MOST_ROWS = 50;

  function median(values) {
    const sorted = values.filter((value) => value !== null).sort((a, b) => a - b);
    return sorted.length ? sorted[sorted.length >> 1] : null;
  }

  const name = (text) => el("span", { class: "mono clip", title: text, text });

  function oddTable(bars) {
    const odd = bars.filter((bar) => bar.odd).sort((a, b) => b.factor - a.factor);
    if (!odd.length) return null;
    const rows = odd.slice(0, MOST_ROWS).map((bar) => [
      format.count(bar.first), name(bar.name), format.bytes(bar.nbytes), format.count(bar.records), `${format.number(bar.factor)}×`,
    ]);
    return el("div", {}, el("h3", { text: "Outliers" }), table("odd shards", ["shard", "file", "bytes", "records", "of the median"], rows, [0, 2, 3, 4]), rest(odd.length));
  }

  const rest = (all) => (all > MOST_ROWS ? el("p", { class: "muted", text: `… and ${format.count(all - MOST_ROWS)} more` }) : null);

  function shards(facts) {
    const bars = facts.shards;
    const all = bars.reduce((sum, bar) => sum + bar.shards, 0);
    const together = all > bars.length ? ` Each bar is the largest of neighbours: ${format.count(all)} shards in ${format.count(bars.length)} bars.` : "";
    if (all === 1) {
      const [bar] = bars;
      const records = bar.records === null ? "" : `, ${format.many(bar.records, "record")}`;
      return el("p", {}, "One shard: ", name(bar.name), `, ${format.bytes(bar.nbytes)}${records}.`);
    }
    const known = bars.some((bar) => bar.records !== null);
    return el(
      "div",
      {},
      el("p", { class: "muted", text: `The dashed line is the median, ${format.bytes(facts.shards_median)}.${together}` }),
      titled("bytes of each shard", charts.shards(bars, {
        field: "nbytes", median: facts.shards_median, axis: "bytes", show: format.bytes, label: "bytes of each shard",
      })),
      known
        ? titled("records of each shard", charts.shards(bars, {
            field: "records", median: together ? null : median(bars.map((bar) => bar.records)), axis: "records", show: format.brief, label: "records of each shard",
          }))
        : null,
      oddTable(bars),
    );
  }

  function sizes(facts) {
    if (facts.sizes.length === 1) {
      const [{ least, median: middle, most }] = facts.sizes;
      const range = least === most ? `${format.bytes(most)} each` : `${format.bytes(least)} to ${format.bytes(most)}, median ${format.bytes(middle)}`;
      return el("p", { text: `Records of the one block that was looked at: ${range}.` });
    }
    return titled("smallest, median and largest record of each block", charts.sizes(facts.sizes, { label: "record size along the dataset" }));
  }

  function damage(facts) {
    const rows = facts.damage.slice(0, MOST_ROWS).map((one) => [
      format.count(one.shard), name(one.name), format.count(one.offset),
      one.nbytes === null ? "unknown" : format.count(one.nbytes), one.reason,
    ]);
    return el(
      "div",
      {},
      charts.damage(facts.damage, { label: "damage by shard and offset" }),
      table("damaged regions", ["shard", "file", "offset", "bytes", "what"], rows, [0, 2, 3]),
      rest(facts.damage.length),
    );
  }

  tfio.shards = { damage, shards, sizes };
})();
