// Search without a server: browsers start no worker from a file, so the theme's search runs in a hidden frame instead.
if (location.protocol === "file:") {
  window.IFrameWorker = window.Worker = class IFrameWorker extends EventTarget {
    constructor(address) {
      super();
      const frame = document.createElement("iframe");
      frame.hidden = true;
      this.inside = new Promise((resolve) => {
        frame.addEventListener("load", () => {
          const inside = frame.contentWindow;
          inside.postMessage = (data) => this.dispatchEvent(new MessageEvent("message", { data }));
          const script = inside.document.createElement("script");
          script.addEventListener("load", () => resolve(inside));
          script.src = address;
          inside.document.body.append(script);
        }, { once: true });
      });
      document.body.append(frame);
    }

    postMessage(data) {
      this.inside.then((inside) => inside.dispatchEvent(new MessageEvent("message", { data })));
    }
  };
}
