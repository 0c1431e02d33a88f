// The page of a job: asks for news, and draws what has changed.

import { Chart, bytes, colour, make, short, span } from "./chart.js";
import { History, sum } from "./series.js";

const PARTS = ["data", "route", "pull", "forward", "backward", "dense", "push", "wait", "optimizer"];
const PART_COLOURS = { data: 4, route: 7, pull: 2, forward: 0, backward: 5, dense: 3, push: 1, wait: "cw", optimizer: 6 };
const AGAIN_MS = 1000, LOG_MS = 2000;
const $ = (id) => document.getElementById(id);
const history = new History();
const charts = new Map();
let job = null, chosen = null, seen = "", failures = 0, hasHistory = false;

async function get(path) {
  const answer = await fetch(path, { signal: AbortSignal.timeout(10000) });
  const found = await answer.json();
  if (!answer.ok) throw new Error(found.error ?? `the answer was ${answer.status}`);
  return found;
}

async function follow() {
  for (;;) {
    try {
      if (!hasHistory) { history.load(await get("/api/history")); hasHistory = true; }
      const asked = chosen;
      job = await get(`/api/job?seen=${seen}&log=${encodeURIComponent(asked ?? "")}`);
      seen = job.version;
      if (job.lines !== undefined && asked === chosen) showLines(job.lines);
      failures = 0;
      for (const one of job.processes) if (one.written !== null) history.add(one.name, one.figures, one.written);
      draw();
      if (job.is_over) await pause(AGAIN_MS);
    } catch (error) {
      failures += 1;
      tellLoss(error);
      await pause(AGAIN_MS);
    }
  }
}

const pause = (milliseconds) => new Promise((done) => { setTimeout(done, milliseconds); });

function tellLoss(error) {
  if (job !== null && job.is_over) return;
  if (failures < 2) return;
  $("state").className = "pill";
  $("state").textContent = job === null ? "no answer" : "ended";
  const why = error instanceof TypeError || error.name === "TimeoutError" ? "fleetrun does not answer any more" : error.message;
  notice(`${why}; ${job === null ? "is the job still running?" : "this is the last it said. fleetrun view LOG_DIR shows all of it."}`);
}

function notice(text) {
  $("notice").hidden = !text;
  $("notice").textContent = text;
}

function draw() {
  const first = job.machines[0];
  if (first === undefined) { notice(job.problems.join("; ") || "nothing is known of this job yet"); return; }
  notice(job.problems.join("; "));
  drawHead(first);
  drawTiles(first);
  drawProcesses();
  drawCharts(first);
  drawEvents();
  drawChoice();
}

function endedAt() {
  return job.is_over ? Math.max(...job.machines.map((one) => one.ended ?? one.time)) : job.now;
}

function drawHead(first) {
  const codes = job.machines.map((one) => one.code).filter((one) => one !== null);
  const waiting = job.processes.some((one) => one.state === "waiting");
  const failed = codes.some((one) => one !== 0);
  let [word, kind] = waiting ? ["waiting", "waiting"] : ["running", "running"];
  if (job.is_over) [word, kind] = failed ? [`failed, exit code ${Math.max(...codes)}`, "failed"] : ["finished", ""];
  if (job.is_over && !codes.length) [word, kind] = ["fleetrun is gone", "failed"];
  $("script").textContent = first.script.split("/").pop();
  $("script").title = first.script;
  $("state").className = `pill ${kind}`;
  $("state").textContent = word;
  const counts = [[first.num_servers, "server"], [first.num_workers, "worker"], [first.num_machines > 1 ? first.num_machines : 0, "machine"]];
  $("what").textContent = counts.filter(([number]) => number).map(([number, name]) => `${number} ${name}${number > 1 ? "s" : ""}`).join(", ");
  $("clock").textContent = `${span(endedAt() - first.began)}${first.round ? `, attempt ${first.round + 1}` : ""}`;
  document.title = `${word}: ${$("script").textContent}`;
}

const of = (role) => job.processes.filter((one) => one.role === role);
const total = (processes, find) => processes.map(find).filter((one) => one !== null && one !== undefined).reduce((all, one) => all + one, 0);

function mean(sumKey, countKey) {
  const servers = of("server"), count = total(servers, (one) => one.figures[countKey]);
  return count ? total(servers, (one) => one.figures[sumKey]) / count : null;
}

function drawTiles(first) {
  const workers = of("worker"), holders = job.processes.filter((one) => one.figures["fleet_server_pushes_total"] !== undefined);
  const tiles = [], now = job.now;
  const steps = workers.map((one) => one.figures["fleet_worker_steps_total"]).filter((one) => one !== undefined);
  if (steps.length) {
    const rate = total(workers, (one) => history.rate(one.name, "fleet_worker_samples_total", now));
    const overall = total(workers, (one) => one.figures["fleet_worker_samples_total"]) / Math.max(1, endedAt() - first.began);
    tiles.push(job.is_over ? ["samples a second · with start-up", short(overall)] : ["samples a second", short(rate)]);
    tiles.push(["steps", Math.max(...steps).toLocaleString("en")]);
    const middle = workers.map((one) => one.figures["fleet_worker_step_seconds|p50"]).filter((one) => one);
    const slow = workers.map((one) => one.figures["fleet_worker_step_seconds|p99"]).filter((one) => one);
    if (middle.length) tiles.push([`step · 99% ${milliseconds(Math.max(...slow))}`, milliseconds(Math.max(...middle))]);
  }
  for (const name of reported().slice(0, 2)) {
    const values = workers.map((one) => one.figures[`fleet_worker_reported|${name}`]).filter((one) => one !== undefined);
    tiles.push([values.length > 1 ? `${name} · mean of ${values.length}` : name, values.includes(null) ? "not finite" : (values.reduce((all, one) => all + one, 0) / values.length).toPrecision(4)]);
  }
  const tables = holders.flatMap((one) => Object.entries(one.figures));
  const rows = tables.filter(([key]) => key.startsWith("fleet_table_rows|")).map((one) => one[1]);
  const memory = tables.filter(([key]) => key.startsWith("fleet_table_memory_bytes|")).map((one) => one[1]);
  if (rows.length) tiles.push([`rows · ${bytes(memory.reduce((a, b) => a + b, 0))}`, short(rows.reduce((a, b) => a + b, 0))]);
  const stale = mean("fleet_server_staleness_steps|sum", "fleet_server_staleness_steps|count");
  if (stale !== null && stale > 0) tiles.push([`staleness · 99% ${short(Math.max(...of("server").map((one) => one.figures["fleet_server_staleness_steps|p99"] ?? 0)))}`, short(stale)]);
  $("tiles").replaceChildren(...tiles.map(([label, value]) => {
    const tile = make("div", { class: "tile" });
    tile.append(make("b", {}, value), make("span", {}, label));
    return tile;
  }));
}

const milliseconds = (seconds) => (seconds >= 1 ? `${short(seconds)} s` : `${short(seconds * 1000)} ms`);

function reported() {
  const names = new Set();
  for (const one of of("worker")) {
    for (const key of Object.keys(one.figures)) if (key.startsWith("fleet_worker_reported|")) names.add(key.split("|")[1]);
  }
  return [...names];
}

function drawProcesses() {
  const shown = new Set();
  const cards = job.processes.map((one) => {
    const card = make("button", { class: `process ${one.state}${one.log === chosen ? " chosen" : ""}`, type: "button", "data-name": one.name, "data-state": one.state });
    const top = make("div", { class: "top" });
    top.append(make("span", { class: "dot" }), make("span", { class: "name" }, one.name));
    if (one.life) top.append(make("span", { class: "life" }, `life ${one.life + 1}`));
    top.append(make("span", { class: "memory" }, one.rss ? bytes(one.rss) : ""));
    card.append(top, make("div", { class: "text" }, stateOf(one)));
    const bar = partsOf(one, shown);
    if (bar !== null) card.append(bar);
    card.addEventListener("click", () => choose(one.log));
    return card;
  });
  const focused = document.activeElement?.dataset?.name;
  $("processes").replaceChildren(...cards);
  if (focused) cards.find((one) => one.dataset.name === focused)?.focus();
  $("parts").replaceChildren(...PARTS.filter((part) => shown.has(part)).map((part) => {
    const item = make("span");
    item.append(make("i", { class: colour(PART_COLOURS[part]) }), part);
    return item;
  }));
}

function stateOf(one) {
  if (one.waits?.length) return `waits ${span(job.now - one.waits[0].since)} for ${one.waits[0].what}`;
  if (one.state === "gone") return "its launcher is gone";
  if (one.state === "ended") return "finished";
  if (one.state !== "running") return `${one.state}${one.how ? `: ${one.how}` : ""}`;
  if (one.where) return `no step for ${span(job.now - one.figures["fleet_worker_last_step_timestamp_seconds"])}, at ${one.where}`;
  const now = job.now, facts = [];
  const say = (key, unit) => { const rate = history.rate(one.name, key, now); if (rate !== null) facts.push(`${short(rate)} ${unit}`); };
  if (one.role === "worker") {
    if (one.figures["fleet_worker_steps_total"] !== undefined) facts.push(`step ${one.figures["fleet_worker_steps_total"].toLocaleString("en")}`);
    say("fleet_worker_samples_total", "samples/s");
  } else {
    say("fleet_server_pushes_total", "pushes/s");
    say("fleet_server_pulls_total", "pulls/s");
  }
  return facts.join(" · ") || (one.written === null ? "running, no figures yet" : "running");
}

// Where the time of a worker went lately, as one bar; of an idle one, since it began.
function partsOf(one, shown) {
  if (one.role !== "worker") return null;
  const grown = PARTS.map((part) => [part, history.growth(one.name, `fleet_worker_part_seconds_total|${part}`, 15)]);
  const whole = grown.reduce((all, [, seconds]) => all + seconds, 0);
  if (!(whole > 0)) return null;
  const bar = make("div", { class: "bar", title: grown.map(([part, seconds]) => `${part} ${Math.round((100 * seconds) / whole)}%`).join(", ") });
  for (const [part, seconds] of grown) {
    if (seconds / whole < 0.005) continue;
    shown.add(part);
    const piece = make("i", { class: colour(PART_COLOURS[part]) });
    piece.style.width = `${(100 * seconds) / whole}%`;
    bar.append(piece);
  }
  return bar;
}

function drawCharts(first) {
  const began = first.began, workers = of("worker"), all = job.processes;
  const each = (processes, find) => processes.map((one) => ({ name: one.name, points: find(one), colour: all.indexOf(one) }));
  show("samples a second", short, 0, [{ name: "all workers", points: sum(workers.map((one) => history.rates(one.name, "fleet_worker_samples_total", began))) }]);
  for (const name of reported()) show(name, short, null, each(workers, (one) => history.values(one.name, `fleet_worker_reported|${name}`, began)));
  show("steps a second", short, 0, each(workers, (one) => history.rates(one.name, "fleet_worker_steps_total", began)));
  show("all-reduce, bytes a second", bytes, 0, each(workers, (one) => history.rates(one.name, "fleet_worker_reduced_bytes_total", began)));
  const tables = new Set(all.flatMap((one) => Object.keys(one.figures)).filter((key) => key.startsWith("fleet_table_rows|")));
  show("rows of tables", short, 0, [...tables].map((key) => ({ name: key.split("|")[1], points: sum(all.map((one) => history.values(one.name, key, began))) })));
  show("pushes a second", short, 0, each(of("server"), (one) => history.rates(one.name, "fleet_server_pushes_total", began)));
  if (of("server").some((one) => one.figures["fleet_server_staleness_steps|sum"] > 0)) {
    show("staleness, 99%", short, 0, each(of("server"), (one) => history.values(one.name, "fleet_server_staleness_steps|p99", began)));
  }
  show("memory", bytes, 0, each(all, (one) => history.values(one.name, "fleet_process_resident_memory_bytes", began)));
  show("CPU cores", short, 0, each(all, (one) => history.rates(one.name, "fleet_process_cpu_seconds_total", began)));
}

function show(title, format, floor, series) {
  if (!series.some((one) => one.points.length > 1) && !charts.has(title)) return;
  if (!charts.has(title)) {
    charts.set(title, new Chart(title, format, floor));
    $("charts").append(charts.get(title).element);
  }
  charts.get(title).show(series);
}

function drawEvents() {
  const items = job.events.slice(-60).reverse().map((event) => {
    const item = make("li", { class: event.event ?? "" });
    item.append(make("time", {}, new Date(event.time * 1000).toLocaleTimeString("en-GB")));
    const text = make("span");
    if (!event.who.startsWith("fleetrun")) text.append(make("em", {}, `${event.who}, ${event.event}: `));
    text.append(event.text);
    item.append(text);
    return item;
  });
  if ($("events").childElementCount !== items.length || $("events").firstChild?.textContent !== items[0]?.textContent) $("events").replaceChildren(...items);
}

function drawChoice() {
  const logs = job.processes.map((one) => [one.log, one.name]);
  if ([...$("log").options].map((one) => one.value).join() !== logs.map(([log]) => log).join()) {
    $("log").replaceChildren(...logs.map(([log, name]) => make("option", { value: log }, `${name} (${log})`)));
  }
  if (chosen === null && logs.length) choose((job.processes.find((one) => one.role === "worker") ?? job.processes[0]).log);
  $("log").value = chosen ?? "";
}

function choose(log) {
  chosen = log;
  $("log").value = log;
  for (const card of $("processes").children) card.classList.toggle("chosen", job.processes.find((one) => one.name === card.dataset.name)?.log === log);
  readLog();
}

async function readLog() {
  if (chosen === null) return;
  const asked = chosen;
  try {
    const { lines } = await get(`/api/log?name=${encodeURIComponent(asked)}&lines=200`);
    if (asked !== chosen) return;
    showLines(lines);
  } catch { /* the next try may succeed, and the head says what is wrong */ }
}

function showLines(lines) {
  const pane = $("lines"), text = lines.join("\n"), isAtEnd = pane.scrollHeight - pane.scrollTop - pane.clientHeight < 30;
  if (pane.textContent === text) return;
  pane.textContent = text;
  if (isAtEnd) pane.scrollTop = pane.scrollHeight;
}

$("log").addEventListener("change", () => choose($("log").value));
window.addEventListener("resize", () => { for (const chart of charts.values()) chart.draw(); });
setInterval(() => { if (job !== null && !(job.is_over && $("lines").textContent)) readLog(); }, LOG_MS);
follow();
