// Runs Perfetto's trace processor, compiled to WebAssembly, on one trace.
//
//   node driver.mjs ASSETS TRACE SQL...
//
// ASSETS has trace_processor.wasm, its loader engine_bundle.node.js and the client engine.mjs.
// Prints one JSON list with {"columns", "rows"} for each statement; integers exact.

import fs from "node:fs";
import path from "node:path";
import { pathToFileURL } from "node:url";
import vm from "node:vm";

const [assets, trace, ...statements] = process.argv.slice(2);

// The loader was made for a browser's worker, and leaves the bridge that it builds in a local variable.
Object.defineProperty(globalThis, "self", { value: globalThis });
Object.defineProperty(globalThis, "location", { value: { href: pathToFileURL(assets).href + "/" } });
globalThis.WorkerGlobalScope = class {};
globalThis.engineBytes = new Uint8Array(fs.readFileSync(path.join(assets, "trace_processor.wasm")));
let loader = fs.readFileSync(path.join(assets, "engine_bundle.node.js"), "utf8");
for (const [from, to] of [
  ["useMemory64 = hasMemory64Support()", "useMemory64 = false"],
  ["locateFile: (s) => s,", "locateFile: (s) => s, wasmBinary: globalThis.engineBytes,"],
  ["const wasmBridge = new", "const wasmBridge = globalThis.engineBridge = new"],
]) {
  if (!loader.includes(from)) throw new Error(`the loader of the trace processor has no ${from}`);
  loader = loader.replace(from, to);
}
// It writes its progress to the console.
console.log = console.warn = () => {};
vm.runInThisContext(loader, { filename: "engine_bundle.node.js" });

const { EngineBase } = await import(pathToFileURL(path.join(assets, "engine.mjs")).href);
const { port1, port2 } = new MessageChannel();
globalThis.engineBridge.initialize(port1);

class Engine extends EngineBase {
  mode = "WASM";
  id = "trace-processor";

  constructor(port) {
    super();
    this.port = port;
    port.onmessage = (message) => this.onRpcResponseBytes(message.data);
  }

  rpcSendRequestBytes(bytes) {
    this.port.postMessage(bytes);
  }
}

const engine = new Engine(port2);
// The engine says nowhere when it is ready.
await new Promise((resolve) => setTimeout(resolve, 1500));
const file = fs.openSync(trace);
const chunk = Buffer.alloc(16 << 20);
for (let size; (size = fs.readSync(file, chunk)) > 0; ) {
  await engine.parse(new Uint8Array(chunk.subarray(0, size)));
}
await engine.notifyEof();

const cell = (value) => (typeof value === "bigint" ? value.toString() : JSON.stringify(value));
let text = "[";
for (const statement of statements) {
  const answer = await engine.query(statement);
  const columns = answer.columns();
  const rows = [];
  for (const row = answer.iter({}); row.valid(); row.next()) {
    rows.push("[" + columns.map((column) => cell(row.get(column))).join(",") + "]");
  }
  text += (text === "[" ? "" : ",") + `{"columns":${JSON.stringify(columns)},"rows":[${rows.join(",\n")}]}`;
}
process.stdout.write(text + "]\n", () => process.exit(0));
