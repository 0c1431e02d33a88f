// How figures of processes have changed: what the log folder has, and what has come since this page was opened.

const SMOOTH_S = 5;      // rates are means over so many seconds
const MOST_POINTS = 4000; // of one process; beyond, every second one of the older half is dropped

export class History {
  constructor() {
    this.points = new Map(); // name of a process -> [{t, ...figures}], ascending
  }

  add(name, figures, t) {
    if (!this.points.has(name)) this.points.set(name, []);
    const points = this.points.get(name), last = points[points.length - 1];
    if (last !== undefined && t <= last.t) return;
    points.push({ ...figures, t });
    if (points.length > MOST_POINTS) {
      const half = MOST_POINTS / 2;
      this.points.set(name, [...points.slice(0, half).filter((_, index) => index % 2 === 0), ...points.slice(half)]);
    }
  }

  load(lines) {
    for (const line of lines) {
      for (const [name, figures] of Object.entries(line.p)) this.add(name, figures, figures.t ?? line.t);
    }
  }

  // The values of a figure, as [seconds since `began`, value].
  values(name, key, began) {
    const found = [];
    let last = null, gap = 1;
    for (const one of this.points.get(name) ?? []) {
      if (one[key] === undefined) continue;
      if (last !== null && one.t - last > Math.max(4, 5 * gap)) found.push([one.t - began, null]); // it was away
      else if (last !== null) gap = one.t - last;
      last = one.t;
      found.push([one.t - began, one[key]]);
    }
    return found;
  }

  // How fast a counter grew; null where its process began anew.
  rates(name, key, began) {
    const points = (this.points.get(name) ?? []).filter((one) => one[key] !== undefined), found = [];
    let from = 0;
    for (let to = 1; to < points.length; to += 1) {
      if (points[to][key] < points[to - 1][key]) { from = to; found.push([points[to].t - began, null]); continue; }
      while (from < to - 1 && points[to].t - points[from + 1].t >= SMOOTH_S) from += 1;
      const seconds = points[to].t - points[from].t;
      if (seconds > 0) found.push([points[to].t - began, (points[to][key] - points[from][key]) / seconds]);
    }
    return found;
  }

  // The rate now; null if it is not known, or nothing has come for a while.
  rate(name, key, now) {
    const found = this.rates(name, key, 0), last = found[found.length - 1];
    return last === undefined || last[1] === null || now - last[0] > 3 * SMOOTH_S ? null : last[1];
  }

  // By how much a counter grew in the last `seconds`, or since it began.
  growth(name, key, seconds) {
    const points = (this.points.get(name) ?? []).filter((one) => one[key] !== undefined);
    if (!points.length) return 0;
    const last = points[points.length - 1], first = points.find((one) => last.t - one.t <= seconds);
    return first === undefined || first === last || first[key] > last[key] ? last[key] : last[key] - first[key];
  }
}

// Several series as one: the sum of what each had last, at every moment of any of them, if that was not long ago.
export function sum(series) {
  const moments = series.flatMap((one, index) => one.map(([t, value]) => [t, value, index])).sort((a, b) => a[0] - b[0]);
  const last = new Array(series.length).fill(null), found = [];
  const recent = moments.length ? Math.max(4, (moments[moments.length - 1][0] - moments[0][0]) / 100) : 0;
  for (const [t, value, index] of moments) {
    last[index] = [t, value];
    const known = last.filter((one) => one !== null && one[1] !== null && t - one[0] <= recent).map((one) => one[1]);
    const before = found[found.length - 1];
    const point = [t, known.length ? known.reduce((all, one) => all + one, 0) : null];
    if (before !== undefined && t - before[0] < 0.5) found[found.length - 1] = [before[0], point[1]];
    else found.push(point);
  }
  return found;
}
