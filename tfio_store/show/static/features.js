// A row for each feature: what it is, how its values are spread, and their numbers.
(() => {
  "use strict";
  const tfio = (globalThis.tfio ??= {});
  const { el, lazily, several, titled } = tfio.dom;
  const { charts, format } = tfio;

  /** Whether lengths are of byte strings, in bytes, and not numbers of values. */
  const isBytes = (feature) => ["bytes", "str"].includes(feature.dtype) || ["image", "audio", "text", "bytes"].includes(feature.role);

  /** A name, its type and role, and in how many records it is. */
  function what(feature, index) {
    const share = feature.records ? feature.present / feature.records : 0;
    const bar = el("span", { class: "share", "aria-hidden": "true" }, el("span"));
    bar.firstChild.style.width = `${100 * share}%`;
    return el(
      "div",
      { class: "what" },
      el("h3", { class: "mono clip", title: feature.name, text: feature.name || "(no name)" }),
      el("p", { class: "badges" }, el("span", { class: "badge", text: feature.dtype }), el("span", { class: `badge role ${feature.role}`, text: feature.role })),
      el("p", { class: "presence", title: `${format.count(feature.present)} of ${format.many(feature.records, "record")}` }, bar, `in ${format.percent(feature.present, feature.records)} of records`),
      el("p", { class: "muted", text: lengthText(feature) }),
    );
  }

  function lengthText(feature) {
    if (!feature.present) return "no values";
    const { length_least: least, length_most: most, length_mean: mean } = feature;
    if (isBytes(feature)) {
      if (least === most) return `${format.bytes(most)} each`;
      return `${format.bytes(least)} to ${format.bytes(most)}, mean ${format.bytes(mean)}`;
    }
    if (least === most) return most === 1 ? "one value each" : `${format.many(most, "value")} each`;
    return `${format.count(least)} to ${format.many(most, "value")} each, mean ${format.number(mean)}`;
  }

  const isConstant = (feature) => feature.least !== null && feature.least === feature.most && !feature.nans && !feature.infinite;

  const QUANTILES = ["least", "1 %", "5 %", "25 %", "median", "75 %", "95 %", "99 %", "most"];

  /** The numbers beside a chart, as rows of name and value. */
  function numbers(feature) {
    const rows = [];
    const isClass = feature.role === "class";
    const told = [["values", format.count(feature.values)], ["distinct", feature.distinct === null ? "many" : format.count(feature.distinct)]];
    if (isClass || isConstant(feature)) {
      if (isClass && feature.least !== null) told.push(["least", format.value(feature, feature.least)], ["most", format.value(feature, feature.most)]);
      return told;
    }
    if (feature.quantiles.length === QUANTILES.length) {
      for (const i of [0, 2, 3, 4, 5, 6, 8]) rows.push([QUANTILES[i], format.value(feature, feature.quantiles[i])]);
    } else if (feature.least !== null) {
      rows.push(["least", format.value(feature, feature.least)], ["most", format.value(feature, feature.most)]);
    }
    if (feature.mean !== null) rows.push(["mean", format.value(feature, feature.mean)]);
    if (feature.std !== null && !format.isMoment(feature)) rows.push(["std. deviation", format.value(feature, feature.std)]);
    if (!isBytes(feature) && feature.zeros) rows.push(["zeros", format.percent(feature.zeros, feature.values)]);
    if (feature.nans) rows.push(["NaN", format.percent(feature.nans, feature.values)]);
    if (feature.infinite) rows.push(["infinite", format.percent(feature.infinite, feature.values)]);
    return [...rows, ...told];
  }

  function numbersTable(feature) {
    const table = el(
      "table",
      { class: "numbers" },
      el("caption", { class: "unseen", text: `numbers of ${feature.name}` }),
      el("tbody", {}, numbers(feature).map(([name, text]) => el("tr", {}, el("th", { scope: "row", text: name }), el("td", { text })))),
    );
    const part = feature.exact ? null : el("p", { class: "muted", text: "Quantiles are of a part of the values, by chance." });
    return el("div", { class: "figures" }, table, part);
  }

  /** Values that occur once tell nothing of how values are spread, unless there are few of them. */
  const repeated = (feature) => feature.top.filter((one) => one.count > 1 || feature.top.length === feature.distinct);

  /** The values that occur most often, each with a bar for its share. */
  function tops(feature, most = 8) {
    const largest = Math.max(...feature.top.map((one) => one.count));
    const rows = repeated(feature).map((one) => {
      const bar = el("span", { class: "bar", "aria-hidden": "true" });
      bar.style.width = `${(100 * one.count) / largest}%`;
      return el(
        "tr",
        {},
        el("th", { scope: "row", class: "clip", title: one.value, dir: "auto", text: one.value === "" ? "(empty)" : one.value }),
        el("td", { class: "bars" }, bar),
        el("td", { class: "number", text: format.count(one.count) }),
        el("td", { class: "number muted", text: format.percent(one.count, feature.values) }),
      );
    });
    const body = el("tbody");
    const table = el("table", { class: "tops" }, el("caption", { class: "unseen", text: `frequent values of ${feature.name}` }), body);
    return several(body, rows, most, table);
  }

  const FEW_CLASSES = 8; // which a table tells better than a chart

  const spread = (histogram) => histogram !== null && histogram.counts.length > 0 && histogram.edges[0] < histogram.edges.at(-1);

  function valuesChart(feature) {
    const whole = feature.distinct !== null && feature.distinct === feature.top.length;
    const classes = feature.role === "class" && whole && feature.top.every((one) => /^-?\d+/.test(one.value));
    if (classes && feature.top.length > FEW_CLASSES) {
      return titled("values of each class", charts.classes(feature.top, { label: `how often each class of ${feature.name} occurs` }));
    }
    if (feature.role === "class" || !spread(feature.histogram)) return null;
    const moment = format.isMoment(feature);
    const scale = feature.histogram.log ? ", log scale" : "";
    const title = isBytes(feature) ? "values by bytes" : moment ? "values by time" : `values${feature.unit ? ` in ${feature.unit}` : ""}${scale}`;
    return titled(title, charts.histogram(feature.histogram, {
      label: `histogram of ${feature.name}`, isMoment: moment, unit: feature.unit, quantiles: feature.quantiles,
      show: (n) => format.value(feature, n),
    }));
  }

  function lengthsChart(feature) {
    if (!spread(feature.lengths) || feature.length_least === feature.length_most) return null;
    const title = isBytes(feature) ? "values by length in bytes" : "records by number of values";
    return titled(title, charts.histogram(feature.lengths, {
      label: `${title} of ${feature.name}`, height: isBytes(feature) ? 150 : 110,
      bytes: isBytes(feature), show: isBytes(feature) ? format.bytes : format.number,
    }));
  }

  function drawings(feature) {
    if (isConstant(feature)) return el("p", { class: "constant", text: `always ${format.value(feature, feature.least)}` });
    const made = [valuesChart(feature), lengthsChart(feature)].filter((one) => one !== null);
    const isNumber = ["number", "time"].includes(feature.role);
    if (feature.values > 1 && feature.distinct === feature.values) {
      if (!made.length) made.push(el("p", { class: "muted", text: "Each value is another one." }));
    } else if (!["image", "audio"].includes(feature.role) && repeated(feature).length && !(isNumber && made.length)) {
      made.push(titled("most frequent values", tops(feature, made.length ? 5 : FEW_CLASSES)));
    }
    return el("div", { class: "drawings" }, made);
  }

  /** What is odd about one feature, in its row. */
  const oddities = (found) =>
    found.length ? el("ul", { class: "oddities" }, found.map((one) => el("li", { class: one.level, text: one.text }))) : null;

  function row(feature, index, found) {
    const article = el("article", { class: "feature", id: `feature-${index}`, tabindex: -1 });
    return lazily(article, () => {
      article.classList.add("filled");
      article.append(what(feature, index), drawings(feature), numbersTable(feature));
      const odd = oddities(found);
      if (odd) article.append(odd);
    });
  }

  const FEW = 8;

  /** All features, and beyond a few of them a box that finds them by name. */
  function features(facts) {
    if (!facts.features.length) return el("p", { class: "fine", text: "There are no features to show." });
    const rows = facts.features.map((feature, i) =>
      row(feature, i, facts.findings.filter((finding) => finding.feature === feature.name)));
    const list = el("div", { class: "features" }, rows);
    if (rows.length <= FEW) return list;
    const told = el("output", { text: format.many(rows.length, "feature") });
    const box = el("input", { type: "search", placeholder: "Find features by name", "aria-label": "features whose names hold" });
    const names = facts.features.map((feature) => feature.name.toLowerCase());
    box.addEventListener("input", () => {
      const wanted = box.value.toLowerCase();
      let shown = 0;
      rows.forEach((article, i) => {
        article.hidden = !names[i].includes(wanted);
        shown += article.hidden ? 0 : 1;
      });
      told.textContent = wanted ? `${format.count(shown)} of ${format.count(rows.length)}` : format.many(rows.length, "feature");
    });
    return el("div", {}, el("div", { class: "finder" }, box, told), list);
  }

  tfio.features = { features };
})();
