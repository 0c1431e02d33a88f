// The calculator of docs/sizing.md: the formulas of src/fleet_tools/planner, in the reader's browser.
// tests/unit/tools/test_sizing.py compares every figure with the planner's; change both together.
"use strict";

(function () {
  const MIB = 2 ** 20, GIB = 2 ** 30;
  const INDEX_BYTES = 25;                                            // planner/memory.py, here and below
  const COLD_BYTES = 1.7, COLD_DISK_BYTES = 16, DISK_SLACK = 1.5, FINDING_PART = 0.25;
  const HOST_PART = 0.9, SERVER_PART = 0.8;
  const CORES_OF_PAIR = 4, MOST_WORKERS = 8, SERVER_BYTES = 300 * MIB; // planner/layout.py
  const INSIDE_CPU = 2e9, KEY_BYTES = 8;                             // planner/exchange.py
  const RECOVERED_BYTES_PER_S = 10e6 * (8 + 64) / 1.82, START_S = 2.4; // benchmarks/results/recovery.json
  const MOST_HOSTS = 4096;

  // Floats of state for a row of n values.
  const RULES = {
    "SGD": () => 0,
    "SGD, momentum": (n) => n,
    "Adagrad": (n) => n,
    "Adagrad, per_row": () => 1,
    "Adam, AdamW, Adamax, Lamb": (n) => 2 * n + 1,
    "RMSprop, DecayedAdagrad, Lars": (n) => n,
    "Ftrl": (n) => 2 * n,
  };
  const TYPES = { "float32": 4, "float16": 2, "bfloat16": 2 };

  const valueBytes = (job) => job.width * TYPES[job.dtype];
  const stateBytes = (job) => 4 * RULES[job.rule](job.width);
  const rowBytes = (job) => valueBytes(job) + stateBytes(job) + INDEX_BYTES;
  const memoryBytes = (job) => job.rows * rowBytes(job);
  const diskBytes = (job) => Math.trunc(DISK_SLACK * job.rows * (valueBytes(job) + stateBytes(job) + COLD_DISK_BYTES));
  const findingBytes = (job) => Math.ceil(COLD_BYTES * job.rows);
  const servedBytes = (job) => job.distinct * (KEY_BYTES + 4 * job.width) + 4 * job.dense;

  // What one machine of `hosts` has to hold, and has room for.
  function layOut(job, hosts) {
    const workers = Math.max(Math.min(Math.floor(job.cores / CORES_OF_PAIR), MOST_WORKERS), 1);
    const servers = hosts === 1 && workers === 1 ? 0 : workers;
    const ofWorker = job.process + 2 * 4 * job.dense + job.activations;
    const denseOfHost = Math.ceil(job.dense * 12 / hosts);
    const others = workers * ofWorker + servers * SERVER_BYTES + denseOfHost;
    const room = Math.min(Math.trunc(HOST_PART * job.memory) - others, Math.trunc(SERVER_PART * job.memory) - denseOfHost);
    const tables = Math.ceil(memoryBytes(job) / hosts);
    const inMemory = room > 0 && tables <= room;
    const finds = inMemory || findingBytes(job) / hosts <= FINDING_PART * room;
    return { workers, servers, room, tables, inMemory, fits: room > 0 && finds };
  }

  // The fewest machines on which it holds; null: not even on the most that are tried.
  function fewest(job, holds) {
    for (let hosts = 1; hosts <= MOST_HOSTS; hosts++) {
      if (holds(layOut(job, hosts))) return hosts;
    }
    return null;
  }

  // Seconds of pull and push of one step, where all workers do so at once.
  function servedS(job, hosts, workers, servers) {
    if (servers === 0) return 0;
    const own = servedBytes(job);
    if (hosts === 1) return 2 * own * workers / INSIDE_CPU / Math.max(1, Math.min(workers, servers));
    return 2 * Math.max(own * workers / hosts, own * workers / Math.min(servers, hosts)) / job.network;
  }

  function recoveryS(job, servers) {
    const rows = job.rows / Math.max(1, servers);
    return START_S + rows * (KEY_BYTES + valueBytes(job) + stateBytes(job)) / RECOVERED_BYTES_PER_S;
  }

  // job: rows, width, dtype, rule, distinct (keys of a worker's batch), dense (parameters), activations, process, cores,
  // memory (bytes of a machine), network (bytes a second).
  function size(job) {
    const ram = fewest(job, (found) => found.inMemory);
    const disk = fewest(job, (found) => found.fits);
    const hosts = ram === null ? disk : ram;
    const found = { row: rowBytes(job), memory: memoryBytes(job), disk: diskBytes(job), finding: findingBytes(job),
      step: servedBytes(job), hostsInMemory: ram, hostsOnDisk: disk };
    if (hosts === null) return found;
    const { workers, servers, room } = layOut(job, hosts);
    return { ...found, workers: workers * hosts, servers: servers * hosts, room,
      exchange: servedS(job, hosts, workers * hosts, servers * hosts), recovery: recoveryS(job, servers * hosts) };
  }

  if (typeof module !== "undefined") {
    module.exports = { RULES, TYPES, RECOVERED_BYTES_PER_S, START_S, size, layOut, stateBytes };
    return;
  }

  const FIELDS = [
    ["rows", "rows of all tables together", 1e9],
    ["width", "values of a row", 16],
    ["dtype", "stored as", Object.keys(TYPES)],
    ["rule", "rule", Object.keys(RULES), "Adagrad"],
    ["distinct", "distinct ids in a worker's batch", 10400],
    ["dense", "dense parameters", 431000],
    ["cores", "cores of a machine", 16],
    ["memory", "memory of a machine, GiB", 64],
    ["network", "network between machines, Gbit/s", 10],
    ["process", "memory of a worker's process, MiB", 400],
    ["activations", "activations of a batch, MiB", 8],
  ];
  const units = (bytes) => {
    for (const [name, size] of [["TiB", 2 ** 40], ["GiB", GIB], ["MiB", MIB], ["KiB", 1024]]) {
      if (bytes >= size) return `${(bytes / size).toPrecision(3)} ${name}`;
    }
    return `${bytes} bytes`;
  };
  const machines = (hosts) => hosts === null ? `more than ${MOST_HOSTS}` : hosts.toLocaleString("en");

  function results(found) {
    const lines = [
      ["a row in memory", units(found.row)],
      ["all rows in memory", units(found.memory)],
      ["all rows on disks, at most", `${units(found.disk)}, and ${units(found.finding)} of memory to find them`],
      ["machines, rows in memory", machines(found.hostsInMemory)],
      ["machines, rows on disks", machines(found.hostsOnDisk)],
    ];
    if (found.workers) lines.push(
      ["on them", `${found.workers} workers and ${found.servers || "no"} servers`],
      ["a worker's step, each way", units(found.step)],
      ["pull and push, all workers at once", `${(1000 * found.exchange).toPrecision(3)} ms`],
      ["a killed server is back after", `${found.recovery.toPrecision(2)} s and the time to read its journal`],
    );
    return lines;
  }

  function build(place) {
    const form = document.createElement("form"), table = document.createElement("table");
    const inputs = {};
    for (const [name, words, given, chosen] of FIELDS) {
      const label = document.createElement("label");
      label.style.cssText = "display:flex;justify-content:space-between;gap:1em;max-width:32em;margin:.2em 0";
      label.textContent = words;
      const input = document.createElement(Array.isArray(given) ? "select" : "input");
      if (Array.isArray(given)) given.forEach((one) => input.add(new Option(one, one, false, one === chosen)));
      else Object.assign(input, { type: "number", min: 0, step: "any", value: given });
      input.name = name;
      input.style.cssText = "border:1px solid currentColor;padding:.1em .4em;width:14em;color:inherit;background:inherit";
      inputs[name] = input;
      label.append(input);
      form.append(label);
    }
    const show = () => {
      const job = {};
      for (const [name, , given] of FIELDS) job[name] = Array.isArray(given) ? inputs[name].value : Number(inputs[name].value);
      Object.assign(job, { memory: job.memory * GIB, network: job.network * 1e9 / 8, process: job.process * MIB,
        activations: job.activations * MIB });
      table.replaceChildren(...results(size(job)).map((cells) => {
        const row = document.createElement("tr");
        cells.forEach((text) => { row.insertCell().textContent = text; });
        return row;
      }));
    };
    form.addEventListener("input", show);
    form.addEventListener("submit", (event) => event.preventDefault());
    place.replaceChildren(form, table);
    show();
  }

  const start = () => { const place = document.getElementById("fleet-sizing"); if (place) build(place); };
  if (document.readyState === "loading") document.addEventListener("DOMContentLoaded", start);
  else start();
})();
