// The keyboard. Keys that a field or a player needs are left to it.
(() => {
  "use strict";
  const tfio = (globalThis.tfio ??= {});
  const { el } = tfio.dom;

  const HELP = [
    ["n or →", "next page, or next record"],
    ["p or ←", "previous page, or previous record"],
    ["j, k", "next or previous line"],
    ["Enter", "open the line's record"],
    ["Home, End", "first page, last page"],
    ["g", "go to a record by its number"],
    ["f", "find by a value"],
    ["o", "overview"],
    ["r", "records"],
    ["Esc", "from a record back to its page"],
    ["?", "these keys"],
  ];

  const FOLLOWS = { n: "next", ArrowRight: "next", p: "previous", ArrowLeft: "previous", Home: "Home", End: "End", o: "overview", r: "records", Escape: "back" };
  const FOCUSES = { g: "#go", f: ".find select" };

  const busy = (target) => target.closest("input, select, textarea, audio, dialog, [contenteditable]") !== null;

  /** Move among the lines of a table. */
  function step(by) {
    const links = [...document.querySelectorAll(".lines tbody th a")];
    if (!links.length) return false;
    const at = links.indexOf(document.activeElement);
    links[at < 0 ? (by > 0 ? 0 : links.length - 1) : Math.min(Math.max(at + by, 0), links.length - 1)].focus();
    return true;
  }

  function follow(key) {
    const link = document.querySelector(`a[data-key="${key}"]`);
    link?.click();
    return link !== null;
  }

  function pressed(event) {
    if (event.ctrlKey || event.altKey || event.metaKey || busy(event.target)) return;
    const { key } = event;
    let done = false;
    if (key === "j" || key === "k") done = step(key === "j" ? 1 : -1) || follow(key === "j" ? "next" : "previous");
    else if (key === "?") done = help();
    else if (key in FOCUSES) {
      const field = document.querySelector(FOCUSES[key]);
      field?.focus();
      done = field !== null;
    } else if (key in FOLLOWS && !(key.length > 1 && inScroller(event.target, key))) done = follow(FOLLOWS[key]);
    if (done) event.preventDefault();
  }

  /** Whether arrows scroll what has the focus. */
  const inScroller = (target, key) => key.startsWith("Arrow") && target.scrollWidth > target.clientWidth + 1 && target !== document.body;

  function help() {
    const dialog = el("dialog", { class: "large keys", "aria-label": "keys" },
      el("h2", { text: "Keys" }),
      el("table", {}, el("tbody", {}, HELP.map(([key, does]) =>
        el("tr", {}, el("th", { scope: "row" }, el("kbd", { text: key })), el("td", { text: does }))))),
      el("form", { method: "dialog" }, el("button", { text: "Close" })));
    dialog.addEventListener("close", () => dialog.remove());
    document.body.append(dialog);
    dialog.showModal();
    return true;
  }

  const start = () => document.addEventListener("keydown", pressed);

  tfio.keys = { help, start };
})();
