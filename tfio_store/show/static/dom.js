// Elements. Text goes in as text only: nothing here reads markup.
(() => {
  "use strict";
  const tfio = (globalThis.tfio ??= {});

  /** An element. Properties that begin with "on" are listeners; `dataset` is a mapping. */
  function el(name, properties = {}, ...children) {
    const made = document.createElement(name);
    for (const [key, value] of Object.entries(properties)) {
      if (value === null || value === undefined || value === false) continue;
      if (key === "class") made.className = value;
      else if (key === "text") made.textContent = value;
      else if (key === "dataset") Object.assign(made.dataset, value);
      else if (key.startsWith("on")) made.addEventListener(key.slice(2), value);
      else made.setAttribute(key, value === true ? "" : value);
    }
    made.append(...children.flat().filter((child) => child !== null && child !== undefined && child !== false));
    return made;
  }

  /** Calls `fill(element)` when the element comes near the screen, and before printing. */
  const pending = new Map();
  const watcher = new IntersectionObserver(
    (entries) => entries.filter((entry) => entry.isIntersecting).forEach((entry) => fillNow(entry.target)),
    { rootMargin: "400px 0px" },
  );
  function fillNow(element) {
    const fill = pending.get(element);
    if (fill === undefined) return;
    pending.delete(element);
    watcher.unobserve(element);
    fill(element);
  }
  function lazily(element, fill) {
    pending.set(element, fill);
    watcher.observe(element);
    return element;
  }
  const MOST_PRINTED = 300;
  addEventListener("beforeprint", () => [...pending.keys()].slice(0, MOST_PRINTED).forEach(fillNow));

  /** An element that holds what `draw(width)` makes, and makes it anew when its width changes. */
  function fluid(draw, properties = {}) {
    const host = el("div", properties);
    let drawn = 0;
    const sizes = new ResizeObserver(([entry]) => {
      const width = Math.floor(entry.contentRect.width);
      if (width < 40 || Math.abs(width - drawn) < 8) return;
      drawn = width;
      requestAnimationFrame(() => host.replaceChildren(draw(width)));
    });
    sizes.observe(host);
    return host;
  }

  /** A table with a header row. Cells are texts or elements; `right` names columns of numbers. */
  function table(caption, header, rows, right = []) {
    const side = (i) => (right.includes(i) ? "number" : null);
    return el(
      "div",
      { class: "scroll", tabindex: 0, role: "region", "aria-label": caption },
      el(
        "table",
        { class: "rows" },
        el("caption", { class: "unseen", text: caption }),
        el("thead", {}, el("tr", {}, header.map((text, i) => el("th", { scope: "col", class: side(i), text })))),
        el("tbody", {}, rows.map((row) => el("tr", {}, row.map((cell, i) => el("td", { class: side(i) }, cell))))),
      ),
    );
  }

  /** A chart, or something else, below its title. */
  const titled = (text, ...children) => el("div", { class: "chart-of" }, el("p", { class: "chart-title", text }), ...children);

  /** `shown`, whose `list` has the first `most` of `rows`, and a button for the others. */
  function several(list, rows, most, shown = list) {
    list.append(...rows.slice(0, most));
    if (rows.length <= most) return shown;
    const more = el("button", { class: "more", text: `Show ${tfio.format.count(rows.length - most)} more` });
    more.addEventListener("click", () => {
      list.append(...rows.slice(most));
      more.remove();
    });
    return el("div", {}, shown, more);
  }

  tfio.dom = { el, fluid, lazily, several, table, titled };
})();
