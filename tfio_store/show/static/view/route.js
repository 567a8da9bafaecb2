// Where the page is: the part of its address behind "#/". So a reload and the Back button keep it.
(() => {
  "use strict";
  const tfio = (globalThis.tfio ??= {});

  const PAGE = 20; // records on a page

  const whole = (text, fallback) => (/^\d{1,15}$/.test(text ?? "") ? Number(text) : fallback);

  /** "#/records?start=40" → {name: "records", start: 40, …}. All else is the overview. */
  function read(hash) {
    if (!hash.startsWith("#/")) return { name: "overview" };
    const [path, rest = ""] = hash.slice(2).split("?", 2);
    const [name, number] = path.split("/", 2);
    const given = new URLSearchParams(rest);
    const route = {
      name, number: whole(number, null), start: whole(given.get("start"), 0),
      seed: whole(given.get("seed"), null), blocks: whole(given.get("blocks"), null),
      feature: whole(given.get("feature"), null), op: given.get("op"), value: given.get("value") ?? "",
      rows: /^\d+(,\d+)*$/.test(given.get("rows") ?? "") ? given.get("rows").split(",").map(Number) : null,
      why: given.get("why"),
    };
    if (["record", "row"].includes(name) && route.number !== null) return route;
    if (name === "rows" && route.rows !== null) return route;
    if (name === "find" && route.feature !== null && route.op !== null) return route;
    if (["records", "sample"].includes(name)) return route;
    return { name: "overview" };
  }

  /** The address of a screen. What is null is left out. */
  function write(name, values = {}) {
    const { number = null, rows, ...rest } = values;
    const given = { ...rest, rows: rows?.join(",") };
    return `#/${name}${number === null ? "" : `/${number}`}${tfio.asking.query(given)}`;
  }

  /** The screen with the records around one of them. */
  const around = (number) => write("records", { start: number - (number % PAGE) });

  tfio.route = { PAGE, around, read, write };
})();
