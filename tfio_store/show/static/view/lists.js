// A page of records as a table; on a narrow screen each row is a card.
(() => {
  "use strict";
  const tfio = (globalThis.tfio ??= {});
  const { el } = tfio.dom;
  const format = tfio.format;

  /** An image, small. One that cannot be drawn becomes its name. */
  function small(url, text, label) {
    const image = el("img", { class: "thumb", src: url, alt: `${label}: ${text}`, title: text, loading: "lazy", decoding: "async" });
    image.addEventListener("error", () => image.replaceWith(el("span", { class: "muted", text: `${text}, cannot be drawn` })), { once: true });
    return image;
  }

  const nameOf = (line) => (line.number !== null && line.number !== undefined ? `record ${format.count(line.number)}` : format.record(line));

  /** The names of the columns: those of all lines, in the order met. */
  const columns = (lines) => [...new Set(lines.flatMap((line) => line.cells.map(([name]) => name)))].slice(0, 12);

  /** A value, or the image that it is. `found` is what the server tells: a text, and perhaps a URL. */
  function cell(name, [text, url] = [""], label) {
    if (url && text.startsWith("image/")) return el("td", { "data-name": name }, small(url, text, label));
    return el("td", { "data-name": name, dir: "auto", class: url ? "muted" : null },
      el("span", { class: "clip", title: text, text: text === "" ? "–" : text }));
  }

  function row(line, names, href) {
    const label = nameOf(line);
    const values = new Map(line.cells.map(([name, ...found]) => [name, found]));
    const told = line.fault ?? line.note;
    const link = el("a", { href: href(line), "aria-label": label, text: label.replace(/^record /, "") });
    const made = el(
      "tr",
      { class: line.fault ? "bad" : null },
      el("th", { scope: "row" }, link),
      el("td", { class: "number size", "data-name": "size", text: format.bytes(line.nbytes) }),
      told && !line.cells.length
        ? el("td", { class: "told", colspan: names.length + 1, text: told })
        : [
            ...names.map((name) => cell(name, values.get(name), label)),
            el("td", { class: "muted rest", text: line.more ? `and ${format.many(line.more, "feature")} more` : line.note }),
          ],
    );
    made.addEventListener("click", (event) => {
      if (!event.target.closest("a") && !getSelection().toString()) link.click();
    });
    return made;
  }

  /** The table of `lines`; `href(line)` is the address of a line's record. */
  function table(lines, caption, href) {
    const names = columns(lines);
    const head = [
      el("th", { scope: "col", text: "record" }),
      el("th", { scope: "col", class: "number size", text: "size" }),
      ...names.map((name) => el("th", { scope: "col", class: "mono", title: name }, el("span", { class: "clip", text: name || "(no name)" }))),
      el("th", { scope: "col" }, el("span", { class: "unseen", text: "what else" })),
    ];
    return el(
      "div",
      { class: "scroll lines", role: "region", "aria-label": caption, tabindex: -1 },
      el("table", {}, el("caption", { class: "unseen", text: caption }), el("thead", {}, el("tr", {}, head)),
        el("tbody", {}, lines.map((line) => row(line, names, href)))),
    );
  }

  /**
   * Links to other pages. `at` is the first record of this one, of `of`; `href(start)` is the address
   * of the page that begins there. Links have the keys' names: see keys.js.
   */
  function pager(at, of, href) {
    const step = tfio.route.PAGE;
    const last = Math.max(0, Math.floor((of - 1) / step) * step);
    const link = (key, text, start, usable) =>
      usable
        ? el("a", { class: "button", "data-key": key, href: href(start), text })
        : el("span", { class: "button", "aria-disabled": "true", text });
    return el(
      "nav",
      { class: "pager", "aria-label": "pages" },
      link("Home", "First", 0, at > 0),
      link("previous", "← Previous", Math.max(0, at - step), at > 0),
      link("next", "Next →", at + step, at + step < of),
      link("End", "Last", last, at + step < of),
    );
  }

  tfio.lists = { nameOf, pager, table };
})();
