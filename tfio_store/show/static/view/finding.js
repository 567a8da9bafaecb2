// The bar that finds records of the sample by a value.
(() => {
  "use strict";
  const tfio = (globalThis.tfio ??= {});
  const { el } = tfio.dom;

  const OPERATORS = [
    ["=", "is"], ["!=", "is not"], ["<", "<"], ["<=", "≤"], [">", ">"], [">=", "≥"],
    ["contains", "contains"], ["missing", "is missing"],
  ];

  /** The place of a feature among the facts' features, or null. */
  function placeOf(facts, name) {
    const found = facts.features.findIndex((feature) => feature.name === name);
    return found < 0 ? null : found;
  }

  /** In words: "label is 7". */
  function said(facts, route) {
    const name = facts.features[route.feature]?.name ?? "?";
    const op = OPERATORS.find(([sign]) => sign === route.op)?.[1] ?? route.op;
    return route.op === "missing" ? `${name} is missing` : `${name} ${op} ${route.value === "" ? "(empty)" : route.value}`;
  }

  /** The bar. `go(feature, op, value)` is called with what is looked for; `now` fills it in. */
  function bar(facts, now, go) {
    const feature = el("select", { "aria-label": "feature" }, facts.features.map((one, i) =>
      el("option", { value: i, text: one.name || "(no name)", selected: now?.feature === i })));
    const op = el("select", { "aria-label": "comparison" }, OPERATORS.map(([sign, text]) =>
      el("option", { value: sign, text, selected: now?.op === sign })));
    const value = el("input", { type: "text", placeholder: "value", "aria-label": "value", autocomplete: "off", spellcheck: "false", maxlength: 1000 });
    value.value = now?.value ?? "";
    const bare = () => (value.hidden = op.value === "missing");
    op.addEventListener("change", bare);
    bare();
    const form = el("form", { class: "find", role: "search", "aria-label": "find records of the sample" },
      el("span", { class: "muted", text: "Find in the sample" }), feature, op, value, el("button", { text: "Find" }));
    form.addEventListener("submit", (event) => {
      event.preventDefault();
      go(Number(feature.value), op.value, op.value === "missing" ? "" : value.value);
    });
    return facts.features.length ? form : null;
  }

  tfio.finding = { bar, placeOf, said };
})();
