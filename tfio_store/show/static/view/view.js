// The local page: its bar, its screens, and what moves between them.
(() => {
  "use strict";
  const { asking, dom, finding, format, keys, lists, overview, record, route, renderReport } = globalThis.tfio;
  const { el } = dom;
  const { ask, query, sample } = asking;

  const KEY = "tfio_store.sample"; // what sample this tab shows
  const MORE = 4; // times as many blocks
  const MOST_BLOCKS = 4096;
  const LONGEST = 1500; // characters of the rows in an address

  const state = { key: { seed: null, blocks: null }, told: null, facts: null, taking: 0 };
  let screen = new AbortController(); // ends what an earlier screen asked for

  const main = el("main", { id: "screen", tabindex: -1 });
  const status = el("p", { class: "unseen", role: "status" });
  const tabs = el("nav", { class: "tabs", "aria-label": "views" });
  const tools = el("div", { class: "tools" });

  /** Tell what happened: to screen readers, and with `aloud` to all, until the next word. */
  function say(text, aloud = false) {
    status.textContent = text;
    status.className = aloud && text ? "toast" : "unseen";
  }

  // The bar

  function drawBar(now) {
    const link = (key, text, href, here) =>
      el("a", { href, "data-key": key, "aria-current": here ? "page" : null, text });
    const listed = !["overview", ""].includes(now.name);
    tabs.replaceChildren(
      link("overview", "Overview", "#/", now.name === "overview"),
      link("records", "Records", state.told?.by_number === false ? route.write("sample", state.key) : "#/records", listed),
    );
    tools.replaceChildren(...[goTo(), ...sampling()].filter(Boolean), el("button", { class: "help", "aria-label": "keys", title: "keys", text: "?", onclick: keys.help }));
  }

  function goTo() {
    const of = state.told?.of_records;
    if (!state.told?.by_number || !of) return null;
    const box = el("input", { id: "go", type: "text", inputmode: "numeric", placeholder: "go to number", "aria-label": `go to record, 0 to ${format.count(of - 1)}`, autocomplete: "off" });
    const form = el("form", { class: "go", role: "search" }, box);
    form.addEventListener("submit", (event) => {
      event.preventDefault();
      const number = Number(box.value.replace(/[,\s_]/g, ""));
      if (!Number.isInteger(number) || number < 0 || number >= of) {
        box.setAttribute("aria-invalid", "true");
        say(`There is no record ${box.value}: they are 0 to ${format.count(of - 1)}.`, true);
        return;
      }
      box.value = "";
      box.blur();
      location.hash = route.write("record", { number });
    });
    return form;
  }

  function sampling() {
    if (state.facts === null) return [];
    const { scope } = state.facts;
    const button = (text, title, key) => el("button", { text, title, disabled: state.taking > 0, onclick: () => take(key, true) });
    const { seed, blocks } = state.told;
    const all = scope.full || (scope.of_blocks !== null && scope.blocks >= scope.of_blocks);
    return [
      button("Sample anew", "look at other records", { seed: (seed + 1) % 2 ** 32, blocks }),
      all || blocks >= MOST_BLOCKS ? null : button("Sample more", `look at ${MORE} times as much`, { seed, blocks: Math.min(blocks * MORE, MOST_BLOCKS) }),
    ];
  }

  // The sample

  /** Take a sample and show what it tells. The one that is shown stays until then. */
  async function take(key, anew) {
    const turn = ++state.taking;
    if (anew) {
      drawBar(route.read(location.hash));
      if (route.read(location.hash).name !== "overview") location.hash = "#/";
    }
    try {
      const told = await sample(key, (answer) => turn === state.taking && progress(answer));
      if (turn !== state.taking) return;
      state.taking = 0;
      if (told.state === "failed") return failed(told);
      hold(told);
      document.title = `${overview.shortName(told.source)}: tfio-store view`;
      say(anew ? overview.scopeText(told.facts.scope) : "");
      show();
    } catch (error) {
      state.taking = 0;
      failed({ error: error.message });
    }
  }

  function hold(told) {
    Object.assign(state, { told, facts: told.facts, key: { seed: told.seed, blocks: told.blocks } });
    sessionStorage.setItem(KEY, JSON.stringify(state.key));
  }

  /** How far a sample is; and what is known of the source meanwhile. */
  function progress(told) {
    const first = state.told === null;
    const ready = !first && !state.told.by_number && told.by_number;
    if (state.facts === null) state.told = told;
    const so = told.records ? `: ${format.many(told.records, "record")}, ${format.bytes(told.nbytes)} so far` : "";
    say(`Taking a sample${so} …`, true);
    if (first || ready) show();
  }

  function failed(told) {
    say("");
    drawBar(route.read(location.hash));
    const again = el("button", { text: "Try again", onclick: () => { main.replaceChildren(); take(state.key, false); } });
    const name = told.source ?? state.told?.source ?? "";
    main.replaceChildren(
      el("header", { class: "top" }, el("p", { class: "eyebrow", text: "TFRecord dataset" }), el("h1", { class: "clip", title: name, text: overview.shortName(name) || "No answer" })),
      el("div", { class: "finding error", role: "alert" }, el("span", { class: "level", text: "Error" }), el("span", { class: "said", text: told.error })),
      el("p", { class: "again" }, again),
    );
  }

  // Screens

  const recordHref = (place) =>
    place.number !== null && state.told.by_number
      ? route.write("record", { number: place.number })
      : route.write("row", { number: place.row, ...state.key });

  const rowHref = (line) => route.write("row", { number: line.row, ...state.key });

  /** The address of all the records that show a finding. */
  function findingHref(one) {
    const rows = one.rows.slice(0, 100);
    return rows.join(",").length < LONGEST ? route.write("rows", { rows, why: one.text.slice(0, 200), ...state.key }) : null;
  }

  function findHref(name, value) {
    const feature = state.facts === null ? null : finding.placeOf(state.facts, name);
    return feature === null ? null : route.write("find", { feature, op: "=", value, ...state.key });
  }

  function findBar(now) {
    if (state.facts === null) return null;
    return finding.bar(state.facts, now, (feature, op, value) => {
      location.hash = route.write("find", { feature, op, value, ...state.key });
    });
  }

  function drawOverview() {
    if (state.facts === null) return waiting();
    const root = el("div", { id: "report" });
    main.replaceChildren(root);
    renderReport(root, state.facts, { recordHref, findingHref });
  }

  function waiting() {
    const name = state.told?.source ?? "";
    main.replaceChildren(
      el("header", { class: "top" }, el("p", { class: "eyebrow", text: "TFRecord dataset" }), el("h1", { class: "clip", title: name, text: overview.shortName(name) || "…" }),
        name ? el("p", { class: "mono source", text: name }) : null,
        state.told?.of_records ? el("p", { class: "scope", text: format.many(state.told.of_records, "record") }) : null),
      el("progress", { "aria-label": "taking a sample" }),
    );
  }

  /** A screen of a list: what it is, the bar, the lines, and the pages. */
  function drawList(title, lines, { start, of, href, lineHref, note = "", now = null }) {
    const span = lines.length ? `${format.count(start)} to ${format.count(start + lines.length - 1)} of ${format.count(of)}` : "none";
    const pages = () => lists.pager(start, of, href);
    main.replaceChildren(
      el("header", { class: "list-head" }, el("h1", { text: title }), note ? el("p", { class: "muted", text: note }) : null),
      ...[findBar(now)].filter(Boolean),
      el("div", { class: "above" }, el("p", { class: "span", text: span }), pages()),
      lines.length ? lists.table(lines, `${title}, ${span}`, lineHref) : el("p", { class: "muted empty", text: "There are no records here." }),
      ...(lines.length > 8 ? [el("div", { class: "below" }, pages())] : []),
    );
    say(lines.length ? `${title}: ${span}` : `${title}: none`);
  }

  const screens = {
    overview: async () => drawOverview,

    async records(now, signal) {
      const told = await ask(`/api/records${query({ start: now.start, count: route.PAGE })}`, signal);
      return () => drawList("Records", told.lines, {
        start: now.start, of: told.of, href: (start) => route.write("records", { start }), lineHref: recordHref,
      });
    },

    async sample(now, signal) {
      const key = keyOf(now);
      const told = await ask(`/api/rows${query({ start: now.start, count: route.PAGE, ...key })}`, signal);
      return () => drawList("Records of the sample", told.lines, {
        start: now.start, of: told.of, note: state.told?.why ?? "",
        href: (start) => route.write("sample", { start, ...key }), lineHref: rowHref,
      });
    },

    async rows(now, signal) {
      const rows = now.rows.slice(now.start, now.start + route.PAGE);
      const told = await ask(`/api/rows${query({ rows: rows.join(","), ...keyOf(now) })}`, signal);
      return () => drawList("Records of a finding", told.lines, {
        start: now.start, of: now.rows.length, note: now.why ?? "", lineHref: rowHref,
        href: (start) => route.write("rows", { rows: now.rows, why: now.why, start, ...keyOf(now) }),
      });
    },

    async find(now, signal) {
      const { feature, op, value } = now;
      const found = await ask(`/api/filter${query({ feature, op, value, ...keyOf(now) })}`, signal);
      const rows = found.rows.slice(now.start, now.start + route.PAGE);
      const told = rows.length ? await ask(`/api/rows${query({ rows: rows.join(","), ...keyOf(now) })}`, signal) : { lines: [] };
      const most = found.found > found.rows.length ? ` The first ${format.count(found.rows.length)} are shown.` : "";
      const note = `${format.count(found.found)} of ${format.many(found.of, "record")} of the sample (${format.percent(found.found, found.of)}).${most}`;
      return () => drawList(finding.said(state.facts, now), told.lines, {
        start: now.start, of: found.rows.length, note, now, lineHref: rowHref,
        href: (start) => route.write("find", { feature, op, value, start, ...keyOf(now) }),
      });
    },

    async record(now, signal) {
      const path = `/api/record/${now.number}`;
      const told = await ask(path, signal);
      const to = (number) => (number >= 0 && number < told.of_records ? route.write("record", { number }) : null);
      return () => drawRecord(`Record ${format.count(now.number)}`, told, {
        path, previous: to(now.number - 1), next: to(now.number + 1), back: route.around(now.number), key: {},
      });
    },

    async row(now, signal) {
      const [path, key] = [`/api/row/${now.number}`, keyOf(now)];
      const told = await ask(`${path}${query(key)}`, signal);
      const to = (number) => (number >= 0 && number < told.of_rows ? route.write("row", { number, ...key }) : null);
      const byNumber = told.number !== null && state.told?.by_number ? route.write("record", { number: told.number }) : null;
      return () => drawRecord(`${told.number === null ? "A record" : `Record ${format.count(told.number)}`}, row ${format.count(now.number)} of the sample`, told, {
        path, previous: to(now.number - 1), next: to(now.number + 1), byNumber, key,
        back: route.write("sample", { start: now.number - (now.number % route.PAGE), ...key }),
      });
    },
  };

  function drawRecord(title, told, { path, previous, next, back, byNumber = null, key }) {
    const link = (name, text, href) =>
      href === null ? el("span", { class: "button", "aria-disabled": "true", text }) : el("a", { class: "button", "data-key": name, href, text });
    const further = (first) => ask(`${path}${query({ first, ...key })}`).catch((error) => {
      say(error.message);
      return { features: [] };
    });
    main.replaceChildren(
      el("header", { class: "list-head" },
        el("nav", { class: "pager", "aria-label": "records" }, link("back", "↑ Page", back), link("previous", "← Previous", previous), link("next", "Next →", next)),
        el("h1", { text: title }),
        el("p", { class: "muted" }, record.place(told), byNumber === null ? null : el("a", { class: "same", href: byNumber, text: "its neighbours" }))),
      record.shown(told, { findHref, further }),
    );
    say(title);
  }

  /** The sample that an address names, else the one that is shown. */
  const keyOf = (now) => ({ seed: now.seed ?? state.key.seed, blocks: now.blocks ?? state.key.blocks });

  const NEEDS_SAMPLE = new Set(["sample", "rows", "find", "row"]);

  /** Have the sample that an address names at hand, here and at the server. */
  async function haveSample(now, signal) {
    const told = await sample(keyOf(now), progress, signal);
    if (told.state === "failed") throw new asking.AnswerError(told.error);
    hold(told);
  }

  const sameKey = (one, other) => one.seed === other.seed && one.blocks === other.blocks;

  /** What draws a screen, once the server has told what is on it. */
  async function prepared(now, signal) {
    if (!NEEDS_SAMPLE.has(now.name)) return screens[now.name](now, signal);
    if (!sameKey(keyOf(now), state.key)) await haveSample(now, signal);
    try {
      return await screens[now.name](now, signal);
    } catch (error) {
      if (error.status !== 503) throw error; // else the server has let go of the sample
    }
    await haveSample(now, signal);
    return screens[now.name](now, signal);
  }

  async function show() {
    screen.abort();
    screen = new AbortController();
    const { signal } = screen;
    const place = location.hash;
    const now = route.read(place);
    drawBar(now);
    if (NEEDS_SAMPLE.has(now.name) && state.facts === null) return waiting();
    main.setAttribute("aria-busy", "true");
    try {
      const draw = await prepared(now, signal);
      if (signal.aborted) return;
      draw();
      if (now.name !== "overview") scrollTo(0, 0);
      main.focus({ preventScroll: true });
    } catch (error) {
      if (error.name !== "AbortError") faulty(error.message);
    } finally {
      if (!signal.aborted) {
        main.dataset.place = place; // the address changes before its screen is drawn
        main.removeAttribute("aria-busy");
      }
    }
  }

  function faulty(text) {
    say("");
    main.replaceChildren(
      el("div", { class: "finding error alone", role: "alert" }, el("span", { class: "level", text: "Error" }), el("span", { class: "said", text })),
      el("p", { class: "again" }, el("button", { text: "Try again", onclick: show })),
    );
  }

  /** Anchors of the overview keep to it: only other screens are drawn anew. */
  let last = null;
  function moved() {
    const now = route.read(location.hash);
    const within = now.name === "overview" && last === "overview" && location.hash !== "" && !location.hash.startsWith("#/");
    last = now.name;
    if (!within) show();
  }

  function begin() {
    document.getElementById("view").replaceChildren(
      el("a", { class: "unseen skip", href: "#screen", text: "to the content", onclick: (event) => { event.preventDefault(); main.focus(); } }),
      el("div", { class: "topbar", role: "banner" }, tabs, tools),
      status,
      main,
    );
    try {
      state.key = { seed: null, blocks: null, ...JSON.parse(sessionStorage.getItem(KEY) ?? "{}") };
    } catch {
      sessionStorage.removeItem(KEY);
    }
    last = route.read(location.hash).name;
    addEventListener("hashchange", moved);
    keys.start();
    drawBar(route.read(location.hash));
    waiting();
    take(state.key, false);
  }

  begin();
})();
