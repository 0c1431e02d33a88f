// Runs Perfetto's trace processor, which comes as WebAssembly, in node: node trace_processor.js FOLDER REQUESTS ANSWERS.
// FOLDER has engine_bundle.js, as a browser would load it in a worker; REQUESTS is the byte stream of its RPC interface.
const fs = require("fs");
const path = require("path");
const vm = require("vm");

const [folder, requests, answers] = process.argv.slice(2);
const out = fs.openSync(answers, "w");
const notes = [];

// A world that looks like a browser's worker, without node's own names in it.
const world = vm.createContext({
  WorkerGlobalScope: class {},
  URL, TextDecoder, TextEncoder, performance, setTimeout, clearTimeout, crypto,
  location: { href: "http://localhost/engine_bundle.js", search: "" },
  console: { log() {}, warn: (text) => notes.push(text), error: (text) => notes.push(text) },
  XMLHttpRequest: class {
    open(_method, url) { this.file = path.join(folder, path.basename(String(url))); }
    send() { this.status = 200; this.response = new Uint8Array(fs.readFileSync(this.file)).buffer; }
  },
});
vm.runInContext("self = globalThis", world);
const bundle = fs.readFileSync(path.join(folder, "engine_bundle.js"), "utf8");
const prepared = bundle.replace("this.reqBufferAddr=", "globalThis.isReady=true,this.reqBufferAddr=");
vm.runInContext(prepared, world);

const port = { postMessage: (bytes) => fs.writeSync(out, bytes), onmessage: null };
world.onmessage({ data: port });
world.given = fs.readFileSync(requests);
const data = vm.runInContext("Uint8Array.from(given)", world);

const fail = (error) => {
  console.error(notes.slice(-5), String(error).slice(0, 1000));
  process.exit(1);
};
process.on("unhandledRejection", fail);
process.on("uncaughtException", fail);
// The bridge takes requests once its module is compiled and has begun, which it tells nobody of.
const deadline = Date.now() + 60_000;
const attempt = () => {
  if (world.isReady) {
    port.onmessage({ data });
    process.exit(0);
  }
  if (Date.now() > deadline) fail("the trace processor does not begin");
  setTimeout(attempt, 10);
};
attempt();
