// Asks the server. An error comes as words that can be shown.
(() => {
  "use strict";
  const tfio = (globalThis.tfio ??= {});

  class AnswerError extends Error {
    constructor(text, status = 0) {
      super(text);
      this.status = status;
    }
  }

  const ENDED = "The server does not answer. Has tfio-store view ended? Start it again, and open the address that it prints.";
  const LOCKED = "This page's key is not known any more. Open the address that tfio-store view printed.";

  /** The JSON of a path. `signal` ends the wait. AnswerError in words for all that goes wrong. */
  async function ask(path, signal) {
    let answer;
    try {
      answer = await fetch(path, { signal, credentials: "same-origin", cache: "no-store" });
    } catch (error) {
      if (error.name === "AbortError") throw error;
      throw new AnswerError(ENDED);
    }
    if (answer.status === 403) throw new AnswerError(LOCKED);
    const told = await answer.json().catch(() => ({}));
    if (!answer.ok) throw new AnswerError(told.error ?? `The server answered ${answer.status}.`, answer.status);
    return told;
  }

  /** `?seed=1&blocks=64` of a mapping, without what is null. */
  function query(values) {
    const given = Object.entries(values).filter(([, value]) => value !== null && value !== undefined);
    return given.length ? `?${new URLSearchParams(given)}` : "";
  }

  const pause = (milliseconds) => new Promise((done) => setTimeout(done, milliseconds));

  /**
   * Ask for a sample until it is there, and give what the server tells then: its state is "ready" or
   * "failed". `tell(answer)` hears each answer before; `signal` ends it.
   */
  async function sample(key, tell, signal) {
    for (;;) {
      const told = await ask(`/api/facts${query(key)}`, signal);
      if (told.state !== "working") return told;
      tell(told);
      await pause(250);
    }
  }

  tfio.asking = { AnswerError, ask, query, sample };
})();
