// A page of a file: address may not start a worker from a script. There, the script of the search
// runs in a hidden frame with the interface of a worker. Served pages use the browser's workers.
if (location.protocol === "file:") {
  window.Worker = class extends EventTarget {
    constructor(address) {
      super();
      const frame = document.createElement("iframe");
      frame.hidden = true;
      document.body.appendChild(frame);
      this.inner = frame.contentWindow;
      addEventListener("message", (event) => {
        if (event.source === this.inner) {
          this.dispatchEvent(new MessageEvent("message", { data: event.data }));
        }
      });
      this.ready = new Promise((resolve) => {
        const answer = (data) => parent.postMessage(data, "*");
        this.inner.document.open();
        this.inner.document.write("<!doctype html><script>postMessage = " +
          answer + "<\/script><script src='" + address + "'><\/script>");
        this.inner.document.close();
        this.inner.addEventListener("load", resolve);
      });
    }
    postMessage(data) {
      this.ready.then(() =>
        this.inner.dispatchEvent(new MessageEvent("message", { data })));
    }
    terminate() {}
  };
}
