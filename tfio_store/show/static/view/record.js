// One record: every feature of it, with its values.
(() => {
  "use strict";
  const tfio = (globalThis.tfio ??= {});
  const { el } = tfio.dom;
  const format = tfio.format;

  const save = (value) => el("a", { class: "same", href: value.file, download: "value", text: "Download" });

  /** An image or a sound; of an image that would take too much to draw, why, and its file. */
  function media(value, label) {
    if (value.why) return el("span", { class: "fault" }, `This image is not drawn: ${value.why}. `, save(value), " ");
    if (value.media_type.startsWith("audio/")) {
      return el("audio", { controls: true, preload: "metadata", src: value.url, "aria-label": label });
    }
    const image = el("img", { class: "whole", src: value.url, alt: label });
    image.addEventListener("load", () => {
      image.classList.toggle("pixels", Math.max(image.naturalWidth, image.naturalHeight) <= 96);
      image.title = `${image.naturalWidth} × ${image.naturalHeight} pixels`;
      image.after(el("span", { class: "muted", text: `${image.naturalWidth} × ${image.naturalHeight} pixels, ` }));
    }, { once: true });
    image.addEventListener("error", () => {
      image.replaceWith(el("span", { class: "fault" }, "This image is damaged: it cannot be drawn. ", save(value), " "));
    }, { once: true });
    return image;
  }

  /** A byte string: as an image or sound, as text, or as hexadecimal numbers. */
  function string(value, label) {
    if (value.media_type) {
      const about = `${value.media_type}, ${format.bytes(value.nbytes)}`;
      return el("div", { class: "value media" }, media(value, label), el("span", { class: "muted", text: about }));
    }
    const more = value.cut ? el("span", { class: "muted", text: ` … ${format.bytes(value.nbytes)} in all` }) : null;
    if (value.hex) {
      return el("div", { class: "value" }, el("code", { class: "hex", text: value.text }), more ?? el("span", { class: "muted", text: ` ${format.bytes(value.nbytes)}` }));
    }
    if (value.text === "") return el("div", { class: "value muted", text: "(empty)" });
    return el("div", { class: "value text-value", dir: "auto" }, value.text, more);
  }

  function values(feature) {
    if (!feature.values.length) return el("p", { class: "muted", text: "no value" });
    if (typeof feature.values[0] === "string") {
      const more = feature.count > feature.values.length;
      const shown = feature.means ?? feature.values;
      return el("p", { class: "numbers-value mono" }, shown.join(", "), more ? el("span", { class: "muted", text: `, … ${format.many(feature.count, "value")} in all` }) : null);
    }
    const shown = feature.values.map((value, i) => string(value, feature.count > 1 ? `${feature.name}, ${i + 1}` : feature.name));
    const rest = feature.count - feature.values.length;
    if (rest > 0) shown.push(el("p", { class: "muted", text: `and ${format.many(rest, "value")} more` }));
    return el("div", { class: "strings" }, shown);
  }

  function counts(feature) {
    const kind = feature.dtype === "none" ? "empty" : feature.dtype;
    const steps = feature.steps === undefined ? null : el("span", { class: "badge", text: format.many(feature.steps, "step") });
    const many = feature.count === 1 ? null : el("span", { class: "badge", text: format.many(feature.count, "value") });
    return [el("span", { class: "badge", text: kind }), steps, many];
  }

  /** The one short value of a feature, as the filter takes it; else null. */
  function single(feature) {
    if (feature.count !== 1 || feature.steps !== undefined) return null;
    const [value] = feature.values;
    if (typeof value === "string") return value;
    return value.exact && value.text.length <= 80 && !value.text.includes("\n") ? value.text : null;
  }

  function field(feature, findHref) {
    const value = single(feature);
    const href = value === null ? null : findHref(feature.name, value);
    return el(
      "div",
      { class: "field" },
      el("dt", {}, el("span", { class: "mono name", text: feature.name || "(no name)" }), el("span", { class: "badges" }, counts(feature))),
      el("dd", {}, values(feature), href === null ? null : el("a", { class: "same", href, text: "records with this value" })),
    );
  }

  const FEW = 12;

  /** A box that shows the features whose names hold what is typed. */
  function finder(list) {
    const told = el("output", { class: "muted" });
    const box = el("input", { type: "search", placeholder: "Find a feature", "aria-label": "find a feature by its name", autocomplete: "off", spellcheck: "false" });
    box.addEventListener("input", () => {
      const fields = [...list.children];
      const wanted = box.value.toLowerCase();
      for (const each of fields) each.hidden = !each.querySelector(".name").textContent.toLowerCase().includes(wanted);
      told.textContent = wanted ? format.many(fields.filter((each) => !each.hidden).length, "feature") : "";
    });
    return el("div", { class: "finder" }, box, told);
  }

  /**
   * What a record holds, as `/api/record` tells it. `findHref(name, value)` is the address of the
   * records with that value, or null; `further(first)` asks for the features from there on.
   */
  function shown(told, { findHref, further }) {
    const list = el("dl", { class: "fields" }, told.features.map((feature) => field(feature, findHref)));
    const more = el("button", { class: "more" });
    let next = told.features.length;
    const count = () => {
      more.hidden = next >= told.of;
      more.textContent = `Show more of ${format.many(told.of, "feature")}`;
    };
    more.addEventListener("click", async () => {
      more.disabled = true;
      const found = await further(next).finally(() => (more.disabled = false));
      list.append(...found.features.map((feature) => field(feature, findHref)));
      next += found.features.length;
      count();
    });
    count();
    const note = told.note ? el("p", { class: "finding note" }, el("span", { class: "said", text: told.note })) : null;
    return el("div", { class: "record" }, note, told.of > FEW ? finder(list) : null, list, more);
  }

  /** Where a record lies. */
  function place(told) {
    const parts = [format.bytes(told.nbytes), format.many(told.of, "feature")];
    if (told.shard !== undefined) parts.push(`shard ${format.count(told.shard)}, offset ${format.count(told.offset)}`, `≈ byte ${Math.floor(100 * told.at)} %`);
    return parts.join(" · ");
  }

  tfio.record = { place, shown };
})();
