// Search in a page that is opened from a folder: browsers start no worker for file://, so a hidden frame does its work.
if (location.protocol === "file:") {
  const start = (script) => `<!doctype html><body><script>
    const loaded = (url) => new Promise((resolve, reject) => {
      const script = document.createElement("script");
      Object.assign(script, { src: url, onload: resolve, onerror: reject });
      document.body.append(script);
    });
    self.importScripts = (...urls) => urls.reduce((before, url) => before.then(() => loaded(url)), Promise.resolve());
    self.postMessage = (data) => parent.dispatchEvent(new MessageEvent("frame-worker", { data: data }));
  <\/script><script src="${script}"><\/script></body>`;

  window.Worker = class FrameWorker extends EventTarget {
    constructor(script) {
      super();
      this.frame = document.createElement("iframe");
      this.frame.hidden = true;
      document.body.append(this.frame);
      window.addEventListener("frame-worker", ({ data }) => {
        const event = new MessageEvent("message", { data });
        this.dispatchEvent(event);
        this.onmessage?.(event);
      });
      const page = this.frame.contentDocument;
      page.open();
      page.write(start(String(script)));
      page.close();
      this.ready = new Promise((resolve) => (this.frame.contentWindow.onload = resolve));
    }
    postMessage(data) {
      this.ready.then(() => this.frame.contentWindow.dispatchEvent(new MessageEvent("message", { data })));
    }
    terminate() {
      this.frame.remove();
    }
  };
}
