// Pages that are read from disk may start no workers. What the search wants of one, a hidden frame does for it: it runs
// the same script, whose messages come out as those of the worker.

if (location.protocol === "file:") {
  window.IFrameWorker = window.Worker = class extends EventTarget {
    constructor(script) {
      super();
      const frame = document.createElement("iframe");
      frame.hidden = true;
      this.begun = new Promise((begin) => (frame.onload = () => begin(frame.contentWindow)));
      this.begun.then((inside) => {
        inside.postMessage = (data) => this.dispatchEvent(new MessageEvent("message", { data }));
      });
      frame.srcdoc = `<script src="${new URL(script, location.href)}"></script>`;
      document.body.append(frame);
    }

    postMessage(data) {
      this.begun.then((inside) => inside.dispatchEvent(new MessageEvent("message", { data })));
    }
  };
}
