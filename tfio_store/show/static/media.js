// Images, texts and audio, with their captions.
(() => {
  "use strict";
  const tfio = (globalThis.tfio ??= {});
  const { el, lazily } = tfio.dom;
  const format = tfio.format;

  // What a page may show. Never SVG or HTML, which can hold programs.
  const ALLOWED = new Set([
    "image/jpeg", "image/png", "image/gif", "image/bmp", "image/webp",
    "audio/wav", "audio/flac", "audio/mpeg", "audio/ogg",
  ]);
  const SMALL = 96; // pixels: a smaller image is shown enlarged, with its pixels sharp

  /** The bytes of an item as a URL. null for what may not be shown. */
  function mediaUrl(item) {
    return ALLOWED.has(item.media_type) && item.data ? `data:${item.media_type};base64,${item.data}` : null;
  }

  const captionText = (item) => item.captions.map(([name, value]) => `${name}: ${value}`).join(", ");

  /** The other features of an item's record, as a list of names and values. */
  function captions(item) {
    if (!item.captions.length) return null;
    return el("dl", { class: "captions" }, item.captions.map(([name, value]) =>
      el("div", {}, el("dt", { title: name, text: name }), el("dd", { title: value, text: value }))));
  }

  /** Where an item's record lies. */
  function whence(item) {
    const text = format.record(item.place);
    const title = `shard ${format.count(item.place.shard)}, offset ${format.count(item.place.offset)}`;
    return el("span", { class: "whence", title, text });
  }

  function picture(item, url, properties = {}) {
    const small = item.width > 0 && Math.max(item.width, item.height) <= SMALL;
    const image = el("img", {
      src: url, alt: captionText(item) || format.record(item.place), decoding: "async",
      class: small ? "pixels" : null, ...properties,
    });
    image.addEventListener("error", () => {
      (image.closest(".frame") ?? image).replaceWith(el("span", { class: "broken", text: "cannot be shown" }));
    }, { once: true });
    return image;
  }

  /** One image, larger, with all that is known of it. */
  function enlarge(item, url) {
    const size = item.width ? `${item.width} × ${item.height} pixels, ` : "";
    const dialog = el(
      "dialog",
      { class: "large", "aria-label": `${item.feature}, ${format.record(item.place)}` },
      picture(item, url),
      el("p", { class: "about" }, `${item.feature}, ${size}${format.bytes(item.nbytes)}, `, whence(item)),
      item.shortened ? el("p", { class: "about", text: "Shown smaller than it is." }) : null,
      captions(item),
      el("form", { method: "dialog" }, el("button", { text: "Close" })),
    );
    dialog.addEventListener("close", () => dialog.remove());
    dialog.addEventListener("click", (event) => event.target === dialog && dialog.close());
    document.body.append(dialog);
    dialog.showModal();
  }

  function imageCard(item) {
    const url = mediaUrl(item);
    const shown = url === null
      ? el("span", { class: "broken", text: "cannot be shown" })
      : el("button", {
          class: "frame", "aria-label": `enlarge ${captionText(item) || format.record(item.place)}`,
          onclick: () => enlarge(item, url),
        }, picture(item, url, { loading: "lazy" }));
    return el("figure", { class: "image" }, shown, el("figcaption", {}, captions(item), whence(item)));
  }

  function textCard(item) {
    const more = item.shortened ? el("span", { class: "muted", text: ` … ${format.bytes(item.nbytes)} in all` }) : null;
    return el(
      "figure",
      { class: "text" },
      el("blockquote", { dir: "auto", tabindex: 0 }, item.text, more),
      el("figcaption", {}, whence(item), captions(item)),
    );
  }

  function audioCard(item) {
    const url = mediaUrl(item);
    const player = url === null
      ? el("span", { class: "broken", text: "cannot be played" })
      : el("audio", { controls: true, preload: "metadata", src: url, "aria-label": `${item.feature}, ${format.record(item.place)}` });
    const size = `${item.media_type.replace("audio/", "").toUpperCase()}, ${format.bytes(item.nbytes)}`;
    return el("figure", { class: "audio" }, player, el("figcaption", {}, el("span", { class: "muted", text: `${size} ` }), whence(item), captions(item)));
  }

  const CARDS = { image: imageCard, text: textCard, audio: audioCard };
  const STEP = { image: 48, text: 6, audio: 6 };

  /** The items of one feature: the first ones, and a button for the next. */
  function gallery(items) {
    const [{ kind }] = items;
    const holder = el("div", { class: `gallery ${kind}s` });
    const more = el("button", { class: "more" });
    let shown = 0;
    const grow = () => {
      const next = items.slice(shown, shown + STEP[kind]);
      holder.append(...next.map((item) => CARDS[kind](item)));
      shown += next.length;
      more.hidden = shown >= items.length;
      more.textContent = `Show ${format.count(Math.min(STEP[kind], items.length - shown))} more of ${format.count(items.length)}`;
    };
    more.addEventListener("click", grow);
    lazily(holder, grow);
    return el("div", {}, holder, more);
  }

  /** A gallery for each feature that has items of a kind. */
  function galleries(items, kind) {
    const features = new Map();
    for (const item of items) {
      if (item.kind !== kind) continue;
      if (!features.has(item.feature)) features.set(item.feature, []);
      features.get(item.feature).push(item);
    }
    return [...features].map(([name, found]) =>
      el("div", { class: "of-feature" }, el("h3", { class: "mono clip", title: name, text: name || "(no name)" }), gallery(found)));
  }

  tfio.media = { galleries };
})();
