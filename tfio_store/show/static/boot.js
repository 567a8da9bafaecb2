// Draws the facts that the page brings along.
(() => {
  "use strict";
  const facts = JSON.parse(document.getElementById("facts").textContent);
  globalThis.tfio.renderReport(document.getElementById("report"), facts);
})();
