// Browsers do not run worker scripts of pages that are opened from disk. There, run them in a hidden
// frame instead, so that the search works without a server.
if (location.protocol === "file:") {
  window.Worker = class extends EventTarget {
    constructor(url) {
      super();
      const frame = document.createElement("iframe");
      frame.hidden = true;
      document.body.append(frame);
      const inner = frame.contentWindow;
      inner.postMessage = (data) => this.dispatchEvent(new MessageEvent("message", { data }));
      const script = inner.document.createElement("script");
      script.src = url;
      this.ready = new Promise((resolve) => { script.onload = () => resolve(inner); });
      inner.document.body.append(script);
    }

    postMessage(data) {
      this.ready.then((inner) => inner.dispatchEvent(new MessageEvent("message", { data })));
    }
  };
}
