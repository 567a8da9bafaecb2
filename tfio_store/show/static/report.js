// The page: its sections in order. `tfio.renderReport(root, facts)` fills `root`.
(() => {
  "use strict";
  const tfio = (globalThis.tfio ??= {});
  const { el } = tfio.dom;
  const { media } = tfio;

  /** Title, id and content of each section that has something to show. */
  function sections(facts) {
    const has = (kind) => facts.items.some((item) => item.kind === kind);
    return [
      ["findings", "Findings", () => tfio.overview.findings(facts), true],
      ["images", "Images", () => media.galleries(facts.items, "image"), has("image")],
      ["features", "Features", () => tfio.features.features(facts), true],
      ["shards", "Shards", () => tfio.shards.shards(facts), facts.shards.length > 0],
      ["sizes", "Record sizes", () => tfio.shards.sizes(facts), facts.sizes.length > 0],
      ["damage", "Damage", () => tfio.shards.damage(facts), facts.damage.length > 0],
      ["texts", "Texts", () => media.galleries(facts.items, "text"), has("text")],
      ["audio", "Audio", () => media.galleries(facts.items, "audio"), has("audio")],
    ].filter(([, , , shown]) => shown);
  }

  /** Fill `root` with what `facts` (`Facts.to_json()`) say. */
  function renderReport(root, facts) {
    const shown = sections(facts);
    const links = shown.map(([id, title]) => el("a", { href: `#${id}`, text: title }));
    root.replaceChildren(
      tfio.overview.header(facts),
      el("nav", { class: "sections", "aria-label": "sections" }, links),
      el("main", {}, shown.map(([id, title, make]) =>
        el("section", { id, "aria-labelledby": `${id}-title` }, el("h2", { id: `${id}-title`, text: title }), make()))),
      el("footer", {}, el("p", { text: `Looked at ${tfio.format.utc(facts.header.made)} with tfio_store ${facts.header.version}.` })),
    );
    // The static page's element of that id is gone.
    if (location.hash.length > 1) document.getElementById(location.hash.slice(1))?.scrollIntoView();
  }

  tfio.renderReport = renderReport;
})();
