"use strict";
// Pages that are opened from the disk may not start workers.  There, a hidden frame does the work of one: it runs the
// script of the worker, and messages go between the two windows.
if (location.protocol === "file:") {
  window.Worker = class extends EventTarget {
    onmessage = null;
    onerror = null;
    onmessageerror = null;
    #frame = document.createElement("iframe");
    #waiting = [];

    constructor(address) {
      super();
      this.#frame.hidden = true;
      this.#frame.addEventListener("load", () => this.#start(String(address)), { once: true });
      document.documentElement.append(this.#frame);
    }

    postMessage(data) {
      if (this.#waiting) this.#waiting.push(data);
      else setTimeout(() => this.#frame.contentWindow?.dispatchEvent(new MessageEvent("message", { data })));
    }

    terminate() {
      this.#frame.remove();
    }

    #start(address) {
      const inner = this.#frame.contentWindow;
      if (!inner) return;
      inner.postMessage = (data) => setTimeout(() => {  // as a worker's, messages arrive later
        const event = new MessageEvent("message", { data });
        this.onmessage?.(event);
        this.dispatchEvent(event);
      });
      const script = inner.document.createElement("script");
      script.src = address;
      script.addEventListener("load", () => {
        const waiting = this.#waiting;
        this.#waiting = null;
        for (const data of waiting) this.postMessage(data);
      });
      script.addEventListener("error", (event) => this.onerror?.(event));
      inner.document.head.append(script);
    }
  };
}
