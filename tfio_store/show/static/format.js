// Values as people read them: numbers with separators, bytes with units, times, places.
(() => {
  "use strict";
  const tfio = (globalThis.tfio ??= {});

  const UNITS = ["KiB", "MiB", "GiB", "TiB", "PiB"];
  const few = new Intl.NumberFormat("en-US", { maximumSignificantDigits: 4 });
  const whole = new Intl.NumberFormat("en-US", { maximumFractionDigits: 0 });

  const count = (n) => (n === null || n === undefined ? "?" : whole.format(n));

  /** 1536 → "1.5 KiB". */
  function bytes(n) {
    if (n === null || n === undefined) return "?";
    if (Math.abs(n) < 1024) return `${few.format(n)} B`;
    let unit = -1;
    while (Math.abs(n) >= 1024 && unit < UNITS.length - 1) {
      n /= 1024;
      unit += 1;
    }
    return `${n.toFixed(n < 10 ? 1 : 0)} ${UNITS[unit]}`;
  }

  /** Integers whole, other numbers in four digits. */
  function number(n) {
    if (n === null || n === undefined) return "–";
    if (typeof n === "string") return whole.format(n); // digits that JSON would round
    const size = Math.abs(n);
    if (Number.isInteger(n) && size < 1e12) return whole.format(n);
    if (size !== 0 && (size < 1e-3 || size >= 1e7)) return n.toExponential(3).replace("e+", "e");
    return few.format(n);
  }

  /** Short enough for an axis: 12k, 3.4M. */
  function brief(n) {
    const size = Math.abs(n);
    if (size !== 0 && (size < 1e-3 || size >= 1e15)) return n.toExponential(1).replace("e+", "e");
    return new Intl.NumberFormat("en-US", { notation: "compact", maximumSignificantDigits: 3 }).format(n);
  }

  /** A share of a whole, never rounded to all or nothing when it is neither. */
  function percent(part, all) {
    if (!all) return "–";
    const share = (100 * part) / all;
    if (share > 0 && share < 0.01) return "< 0.01 %";
    if (share < 100 && share > 99.99) return "> 99.99 %";
    if (share === 0 || share === 100) return `${share} %`;
    return `${share.toFixed(share < 10 || share > 99 ? 2 : 1)} %`;
  }

  // The milliseconds of NumPy's units that have a fixed length.
  const MILLISECONDS = { W: 604800000, D: 86400000, h: 3600000, m: 60000, s: 1000, ms: 1, us: 1e-3, ns: 1e-6 };

  /** The Date of a NumPy datetime64 of `unit`, or null where JavaScript has none. */
  function date(n, unit) {
    let found = null;
    if (unit === "Y") found = new Date(Date.UTC(1970 + n, 0));
    else if (unit === "M") found = new Date(Date.UTC(1970, n));
    else if (unit in MILLISECONDS) found = new Date(n * MILLISECONDS[unit]);
    return found !== null && Number.isFinite(found.getTime()) ? found : null;
  }

  function time(n, unit) {
    if (n === null || n === undefined) return "–";
    const found = date(n, unit);
    if (found === null) return `${number(n)} ${unit}`;
    const text = found.toISOString();
    if (text.endsWith("T00:00:00.000Z")) return text.slice(0, -14);
    const fine = ["ms", "us", "ns"].includes(unit);
    return text.replace("T", " ").replace(fine ? /\.000Z$|Z$/ : /(\.\d+)?Z$/, "");
  }

  /** "2024-05-01T12:00:00+00:00" → "2024-05-01 12:00:00 UTC". */
  const utc = (text) => text.replace("T", " ").replace(/(\.\d+)?(Z|\+00:00)?$/, " UTC");

  /** Whether a feature holds moments, which are drawn on an axis of dates. */
  const isMoment = (feature) => feature.role === "time" && feature.dtype.includes("datetime");

  /** A number of a feature, in its unit. */
  function value(feature, n) {
    if (isMoment(feature)) return time(n, feature.unit);
    return feature.unit && n !== null ? `${number(n)} ${feature.unit}` : number(n);
  }

  /** "record 1,204" where an index tells it, else "≈ byte 42 %". */
  const record = (place) =>
    place.number === null ? `≈ byte ${Math.floor(100 * place.at)} %` : `record ${count(place.number)}`;

  /** Steps of a power of two up to `most`, about `count` of them: an axis of bytes. */
  function byteTicks(most, count) {
    const step = 2 ** Math.max(0, Math.ceil(Math.log2(most / count)));
    return Array.from({ length: Math.floor(most / step) + 1 }, (_, i) => i * step);
  }

  const many = (n, one, more = `${one}s`) => `${count(n)} ${n === 1 ? one : more}`;

  tfio.format = { brief, byteTicks, bytes, count, date, isMoment, many, number, percent, record, time, utc, value };
})();
