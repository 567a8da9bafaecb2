// What the source is, what was looked at, and what is odd about it.
(() => {
  "use strict";
  const tfio = (globalThis.tfio ??= {});
  const { el } = tfio.dom;
  const format = tfio.format;

  /** The last part of a URL or path. */
  const shortName = (source) => source.replace(/\/+$/, "").split("/").pop() || source;

  function scopeText(scope) {
    const what = scope.spots ? "spot" : "block";
    const records =
      scope.of_records === null || scope.full || scope.of_records === scope.records
        ? format.many(scope.records, "record")
        : `${format.count(scope.records)} of ${format.many(scope.of_records, "record")}`;
    const told = `${records}, ${format.bytes(scope.nbytes)}`;
    if (scope.full) return `All was looked at: ${told}.`;
    const blocks =
      scope.of_blocks === null ? format.many(scope.blocks, what) : `${format.count(scope.blocks)} of ${format.many(scope.of_blocks, what)}`;
    return `From ${blocks}: ${told}. Seed ${scope.seed}.`;
  }

  function tile(name, value, title = null) {
    return el("div", { class: "tile" }, el("dt", { text: name }), el("dd", { class: "clip", title, text: value }));
  }

  function header(facts) {
    const { header: head, scope } = facts;
    return el(
      "header",
      { class: "top" },
      el("p", { class: "eyebrow", text: "TFRecord dataset" }),
      el("h1", { class: "clip", title: head.source, text: shortName(head.source) }),
      el("p", { class: "mono source", text: head.source }),
      el(
        "dl",
        { class: "tiles" },
        tile("records", head.records === null ? "unknown" : format.count(head.records)),
        tile("stored", format.bytes(head.nbytes), `${format.count(head.nbytes)} bytes`),
        tile(head.shards === 1 ? "shard" : "shards", format.count(head.shards)),
        tile("codec", head.codec, head.codec),
        head.generation === null ? null : tile("generation", head.generation, head.generation),
        head.written === null ? null : tile("written", head.written.slice(0, 10), format.utc(head.written)),
      ),
      el("p", { class: "scope", text: scopeText(scope) }),
      scope.left_out.length
        ? el("ul", { class: "left-out", "aria-label": "left out" }, scope.left_out.map((text) => el("li", { text })))
        : null,
      schema(head),
    );
  }

  function schema(head) {
    if (!head.schema.length) return null;
    const from = { manifest: "of the manifest", sample: "as the sample has it", none: "" }[head.schema_source];
    return el(
      "details",
      { class: "schema" },
      el("summary", { text: `Schema ${from}` }),
      tfio.dom.table("schema", ["feature", "holds"], head.schema.map(([name, holds]) => [
        el("span", { class: "mono", text: name }), el("span", { class: "mono muted", text: holds }),
      ])),
    );
  }

  const LEVELS = { error: "Error", warning: "Warning", note: "Note" };

  /** Links to what shows a finding: its feature, its shards. */
  function links(finding, facts) {
    const made = [];
    const index = facts.features.findIndex((feature) => feature.name === finding.feature);
    if (finding.feature !== null && index >= 0) made.push(el("a", { href: `#feature-${index}`, text: "feature" }));
    if (finding.kind === "damage" && facts.damage.length) made.push(el("a", { href: "#damage", text: "damage" }));
    else if (finding.shards.length) made.push(el("a", { href: "#shards", text: "shards" }));
    return made.length ? el("span", { class: "links" }, made) : null;
  }

  const MOST_FINDINGS = 20;

  function findings(facts) {
    const rows = facts.findings.map((finding) =>
      el(
        "li",
        { class: `finding ${finding.level}` },
        el("span", { class: "level", text: LEVELS[finding.level] }),
        el("span", { class: "said" }, finding.text, " ", links(finding, facts)),
      ));
    const scope = facts.scope.full ? "" : " in what was looked at";
    if (!rows.length) return el("p", { class: "fine", text: facts.scope.records ? `Nothing odd was found${scope}.` : "There are no records to look at." });
    return tfio.dom.several(el("ul", { class: "findings" }), rows, MOST_FINDINGS);
  }

  tfio.overview = { findings, header };
})();
