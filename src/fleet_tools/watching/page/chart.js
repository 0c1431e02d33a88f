// A line chart as SVG: axes with round numbers, one line for each series, and the values below a finger or a pointer.

const SPACE = "http://www.w3.org/2000/svg";
const HEIGHT = 170, LEFT = 46, RIGHT = 8, TOP = 8, BOTTOM = 20;
const COLOURS = 8;

export function make(name, attributes = {}, text = null) {
  const known = name === "svg" || ["path", "line", "text", "g"].includes(name);
  const made = known ? document.createElementNS(SPACE, name) : document.createElement(name);
  for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
  if (text !== null) made.textContent = text;
  return made;
}

export function colour(index) {
  return typeof index === "number" ? `c${index % COLOURS}` : index;
}

export function short(value) {
  if (value === null || value === undefined || Number.isNaN(value)) return "";
  const size = Math.abs(value);
  if (Number.isInteger(value) && size < 10000) return value.toLocaleString("en");
  for (const [unit, letter] of [[1e12, "T"], [1e9, "G"], [1e6, "M"], [1e3, "k"]]) {
    if (size >= unit * 0.9995) return `${trim(value / unit, 3)}${letter}`;
  }
  return trim(value, 3);
}

export function bytes(value) {
  for (const [unit, name] of [[2 ** 40, "TiB"], [2 ** 30, "GiB"], [2 ** 20, "MiB"], [2 ** 10, "KiB"]]) {
    if (Math.abs(value) >= unit) return `${trim(value / unit, 3)} ${name}`;
  }
  return `${Math.round(value)} B`;
}

export function span(seconds) {
  const whole = Math.round(seconds);
  if (whole < 60) return `${whole} s`;
  if (whole < 3600) return `${Math.floor(whole / 60)} min${whole % 60 ? ` ${whole % 60} s` : ""}`;
  const minutes = Math.round(whole / 60);
  return `${Math.floor(minutes / 60)} h${minutes % 60 ? ` ${minutes % 60} min` : ""}`;
}

function trim(value, digits) {
  return Number(value.toPrecision(digits)).toLocaleString("en", { maximumFractionDigits: 6 });
}

// Round numbers from at most `low` to at least `high`, about `count` of them.
export function ticks(low, high, count) {
  if (!(high > low)) { const around = Math.abs(low) || 1; low -= around / 2; high += around / 2; }
  const rough = (high - low) / count, power = 10 ** Math.floor(Math.log10(rough));
  const step = [1, 2, 2.5, 5, 10].map((one) => one * power).find((one) => one >= rough * 0.999);
  const found = [];
  for (let at = Math.floor(low / step + 1e-9) * step; at < high + step * 0.999; at += step) found.push(Number(at.toPrecision(12)));
  return found;
}

function moments(begin, end, most) {
  const long = [1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 14400, 28800, 86400, 172800, 604800];
  const step = long.find((one) => (end - begin) / one <= most) ?? 604800;
  const found = [];
  for (let at = 0; at <= end; at += step) if (at >= begin) found.push(at);
  return found;
}

export class Chart {
  constructor(title, format = short, floor = null) {
    this.format = format;
    this.floor = floor;
    this.series = [];
    this.at = null;
    this.element = make("div", { class: "chart" });
    const head = make("div", { class: "head" });
    this.legend = make("div", { class: "legend" });
    head.append(make("h2", {}, title), this.legend);
    this.svg = make("svg", { role: "img", "aria-label": title });
    this.element.append(head, this.svg);
    this.svg.addEventListener("pointermove", (event) => this.point(event));
    this.svg.addEventListener("pointerleave", () => { this.at = null; this.draw(); });
  }

  // Each of `series` is {name, points: [[seconds since the job began, value or null], ...]}.
  show(series) {
    this.series = series.filter((one) => one.points.length);
    this.draw();
  }

  point(event) {
    const box = this.svg.getBoundingClientRect();
    this.at = this.begin + ((event.clientX - box.left - LEFT) / (box.width - LEFT - RIGHT)) * (this.end - this.begin);
    this.draw();
  }

  draw() {
    const width = this.svg.clientWidth || 380;
    const points = this.series.flatMap((one) => one.points).filter((one) => one[1] !== null);
    this.svg.replaceChildren();
    if (!points.length) { this.label([]); return; }
    const times = points.map((one) => one[0]), values = points.map((one) => one[1]);
    this.begin = Math.min(...times);
    this.end = Math.max(...times, this.begin + 5);
    const lowest = this.floor === null ? Math.min(...values) : Math.min(this.floor, ...values);
    const highest = Math.max(...values), unit = this.format === bytes ? 1024 ** Math.max(0, Math.floor(Math.log2(highest || 1) / 10)) : 1;
    const marks = ticks(lowest / unit, highest / unit, 4).map((one) => one * unit), low = marks[0], high = marks[marks.length - 1];
    const x = (time) => LEFT + ((time - this.begin) / (this.end - this.begin)) * (width - LEFT - RIGHT);
    const y = (value) => TOP + (1 - (value - low) / (high - low)) * (HEIGHT - TOP - BOTTOM);
    for (const mark of marks) {
      this.svg.append(make("line", { class: "grid", x1: LEFT, x2: width - RIGHT, y1: y(mark), y2: y(mark) }));
      this.svg.append(make("text", { x: LEFT - 8, y: y(mark) + 4, "text-anchor": "end" }, this.format(mark)));
    }
    for (const mark of moments(this.begin, this.end, Math.max(2, Math.floor(width / 90)))) {
      const anchor = x(mark) > width - 30 ? "end" : x(mark) < LEFT + 10 ? "start" : "middle";
      this.svg.append(make("text", { x: x(mark), y: HEIGHT - 3, "text-anchor": anchor }, span(mark)));
    }
    this.series.forEach((one, index) => {
      let path = "", pen = "M";
      for (const [time, value] of one.points) {
        if (value === null) { pen = "M"; continue; }
        path += `${pen}${x(time).toFixed(1)} ${y(value).toFixed(1)}`;
        pen = "L";
      }
      this.svg.append(make("path", { class: `curve ${colour(one.colour ?? index)}`, d: path }));
    });
    if (this.at !== null) this.svg.append(make("line", { class: "cursor", x1: x(this.at), x2: x(this.at), y1: TOP, y2: HEIGHT - BOTTOM }));
    this.label(this.series);
  }

  label(series) {
    this.legend.replaceChildren();
    series.slice(0, COLOURS).forEach((one, index) => {
      const item = make("span");
      const value = this.valueAt(one);
      item.append(make("i", { class: colour(one.colour ?? index) }), `${one.name}${value === null ? "" : ` ${this.format(value)}`}`);
      this.legend.append(item);
    });
    if (series.length > COLOURS) this.legend.append(make("span", {}, `and ${series.length - COLOURS} more`));
  }

  valueAt(series) {
    if (this.at === null) return null;
    const known = series.points.filter((one) => one[1] !== null);
    if (!known.length) return null;
    return known.reduce((best, one) => (Math.abs(one[0] - this.at) < Math.abs(best[0] - this.at) ? one : best))[1];
  }
}
