// Curves, drawn as svg.py draws them: over another axis, smoothed, of some of the runs, in other groups.
const WIDTH = 400, HEIGHT = 246, LEFT = 46, TOP = 24, INNER_WIDTH = 342, INNER_HEIGHT = 186; // as in svg.py
const OWN = 2; // the color of a client's own curve
const STEPS = [1, 2, 2.5, 5, 10, 100, 1000]; // as in axes.py
const WIDE = 10; // times more bytes than another line: beyond it their axis is logarithmic
const T = [NaN, 12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262]; // 97.5 % of Student's t, by degrees of freedom

// Name of a band -> [its words, (values, mean, deviation) -> its two ends].
const BANDS = {
  sd: ["one standard deviation to each side, as in the tables", (values, mean, sd) => [mean - sd, mean + sd]],
  ci: ["95 % confidence intervals of the mean, by Student's t", (values, mean, sd) => {
    const n = values.length, half = (sd * (T[n - 1] ?? 1.96 + 2.372 / (n - 1) + 2.823 / (n - 1) ** 2)) / Math.sqrt(n);
    return [mean - half, mean + half];
  }],
  range: ["from the least to the largest value", (values) => [Math.min(...values), Math.max(...values)]],
};

function written(value) {
  const short = (each) => String(Number(each.toPrecision(4)));
  for (const [unit, letter, least] of [[1e9, "G", 1e9], [1e6, "M", 1e6], [1e3, "k", 1e4]]) {
    if (Math.abs(value) >= least) return short(value / unit) + letter;
  }
  return short(value);
}

function axisOf(values, { count = 5, fromZero = false, tight = false, whole = false }) {
  let low = Math.min(...values, ...(fromZero ? [0] : [])), high = Math.max(...values, ...(fromZero ? [0] : []));
  if (high - low <= 1e-12 * Math.max(Math.abs(high), 1)) {
    const margin = Math.abs(high) > 1e-9 ? Math.abs(high) * 0.1 : 0.5;
    [low, high] = [fromZero ? low : low - margin, high + margin];
  }
  const rough = (high - low) / (count - 1), power = 10 ** Math.floor(Math.log10(rough));
  const step = STEPS.map((digit) => digit * power).find((each) => each >= rough * (1 - 1e-9) && (!whole || Number.isInteger(each)));
  const first = Math.floor(low / step + 1e-9), last = Math.ceil(high / step - 1e-9);
  let ticks = Array.from({ length: last - first + 1 }, (_, i) => Number(((first + i) * step).toPrecision(12)));
  if (tight) ticks = ticks.filter((tick) => low <= tick && tick <= high);
  else [low, high] = [ticks[0], ticks[ticks.length - 1]];
  return { low, high, ticks, log: false, place: (value) => (value - low) / (high - low) };
}

function logAxisOf(values, whole = false) {
  const least = Math.min(...values), most = Math.max(...values), room = Math.max(1.02, (most / least) ** 0.06);
  const low = least / room, high = most * room, ticks = [];
  for (let power = Math.floor(Math.log10(low)); power <= Math.ceil(Math.log10(high)); power += 1) {
    ticks.push(...[1, 2, 5].map((digit) => digit * 10 ** power));
  }
  const inside = ticks.filter((tick) => low <= tick && tick <= high && (!whole || Number.isInteger(tick)));
  const tens = inside.filter((tick) => Math.abs(Math.log10(tick) % 1) < 1e-9);
  const place = (value) => Math.log(value / low) / Math.log(high / low);
  const few = inside.length < 3 ? axisOf([low, high], { tight: true, whole }).ticks.filter((tick) => tick > 0) : inside;
  return { low, high, ticks: inside.length > 7 ? tens : few, log: true, place };
}

function smoothed(values, weight) { // a mean with weights that fade, without a pull towards zero at the beginning
  let sum = 0, all = 0;
  return values.map((value) => {
    sum = weight * sum + (1 - weight) * value;
    all = weight * all + (1 - weight);
    return sum / all;
  });
}

// Groups of runs that share a line: those of a point, of one value of a setting, or each its own ("*").
function groupsOf(data, by) {
  const groups = new Map();
  for (const run of data.runs) {
    const label = by === "*" ? run.name : by ? `${by}=${run.settings[by]}` : run.point;
    if (!groups.has(label)) groups.set(label, { label, slot: by ? groups.size : run.slot, runs: [] });
    groups.get(label).runs.push(run);
  }
  return [...groups.values()];
}

// The mean of a group over its runs, as far as all have come, and a band around it.
function lineOf(group, place, { axis, band }) {
  const done = group.runs.filter((run) => run.done), counted = done.length ? done : group.runs;
  const tables = counted.map((run) => run[axis].flatMap((x, i) => {
    const y = run.values[place][i];
    return x === null || y === null || y === undefined ? [] : [[x, y]];
  }));
  const length = Math.min(...tables.map((table) => table.length));
  if (!tables.length || !length) return null;
  const rows = Array.from({ length }, (_, i) => tables.map((table) => table[i]));
  const mean = (values) => values.reduce((a, b) => a + b, 0) / values.length;
  const ys = rows.map((row) => row.map(([, y]) => y));
  const deviation = (values) => Math.sqrt(values.reduce((sum, value) => sum + (value - mean(values)) ** 2, 0) / (values.length - 1));
  const ends = tables.length > 1 ? ys.map((values) => BANDS[band][1](values, mean(values), deviation(values))) : [];
  return {
    label: group.label,
    slot: group.slot,
    x: rows.map((row) => mean(row.map(([x]) => x))),
    y: ys.map(mean),
    low: ends.map(([low]) => low),
    high: ends.map(([, high]) => high),
  };
}

function kept(line, isKept) {
  const places = line.x.flatMap((_, i) => (isKept(i) ? [i] : []));
  const of = (values) => (values.length ? places.map((i) => values[i]) : []);
  return { ...line, x: of(line.x), y: of(line.y), low: of(line.low), high: of(line.high), raw: of(line.raw || []) };
}

function draw(svg, data, choice, isShown) {
  const place = data.metrics.indexOf(svg.dataset.metric);
  const groups = groupsOf(data, choice.group).map((group) => ({ ...group, runs: group.runs.filter((run) => isShown(run.name)) }));
  let lines = groups.flatMap((group) => (group.runs.length ? [lineOf(group, place, choice)] : [])).filter(Boolean);
  if (choice.smooth) {
    lines = lines.map((line) => ({
      ...line, raw: line.y, y: smoothed(line.y, choice.smooth), low: smoothed(line.low, choice.smooth), high: smoothed(line.high, choice.smooth),
    }));
  }
  if (choice.logy) { // a band that reaches to zero ends at the mean
    lines = lines.map((line) => kept(line, (i) => line.y[i] > 0 && !(line.raw && line.raw[i] <= 0)));
    lines = lines.map((line) => ({ ...line, low: line.low.map((low, i) => (low > 0 ? low : line.y[i])) }));
  }
  if (choice.logx) lines = lines.map((line) => kept(line, (i) => line.x[i] > 0));
  const x = { rounds: "round", bytes: `${data.unit} uploaded`, seconds: "seconds", hours: "virtual hours" }[choice.axis];
  plot(svg, lines.filter((line) => line.x.length), { ...choice, x, y: svg.dataset.y, ceilings: data.ceilings[place], parted: data.parted });
}

// A client's own curve beside the median and the worst tenth of all clients.
function drawOwn(svg, client) {
  const data = JSON.parse(svg.dataset.own), own = data.clients[client], legend = svg.closest("figure").querySelector(".legend");
  const lines = data.lines.map(([label, slot, x, y, low, high]) => ({ label, slot, x, y, low, high }));
  legend.querySelector(".own")?.remove();
  if (own) {
    const item = element("li", undefined, "own");
    item.append(element("i", "", colour(OWN)), `client ${client}`);
    legend.append(item);
    lines.push({ label: `client ${client}`, slot: OWN, x: own[0], y: own[1], low: [], high: [] });
  }
  plot(svg, lines, { axis: "rounds", x: "round", y: data.y, ceilings: [] });
}

function plot(svg, lines, { axis, logx, logy, x: title, y: yTitle, ceilings, parted }) {
  svg.replaceChildren();
  delete svg.dataset.hover;
  if (!lines.length) {
    svg.append(shape("text", { x: LEFT, y: 100, class: "tick" }, logy ? "nothing above zero to draw" : "no run is chosen"));
    return;
  }
  const xs = lines.flatMap((line) => line.x), ys = lines.flatMap((line) => [...line.y, ...line.low, ...line.high, ...(line.raw || [])]).concat(ceilings);
  const ends = lines.map((line) => line.x[line.x.length - 1]), byRound = axis === "rounds";
  const wide = axis === "bytes" && Math.min(...xs) > 0 && Math.max(...ends) > WIDE * Math.min(...ends);
  const x = logx || wide ? logAxisOf(xs, byRound) : axisOf(xs, { count: 6, tight: true, whole: byRound, fromZero: !byRound });
  const y = logy ? logAxisOf(ys) : axisOf(ys, { whole: ys.every(Number.isInteger) });
  const px = (value) => (LEFT + x.place(value) * INNER_WIDTH).toFixed(1), py = (value) => (TOP + (1 - y.place(value)) * INNER_HEIGHT).toFixed(1);
  svg.append(...frame(x, y, px, py, title, yTitle));
  if (parted && byRound && x.low <= parted && parted <= x.high) {
    svg.append(shape("path", { class: "parted", d: `M${px(parted)} ${TOP}v${INNER_HEIGHT}` }));
  }
  svg.append(...ceilings.map((each) => shape("path", { class: "ceiling", d: `M${LEFT} ${py(each)}h${INNER_WIDTH}` })));
  const path = (as, bs) => as.map((a, i) => `${px(a)} ${py(bs[i])}`).join("L");
  for (const line of lines.filter((each) => each.low.length)) {
    const back = path([...line.x].reverse(), [...line.low].reverse());
    svg.append(shape("path", { class: `band ${colour(line.slot)}`, d: `M${path(line.x, line.high)}L${back}Z` }));
  }
  for (const line of lines) {
    if (line.raw && line.raw.length > 1) svg.append(shape("path", { class: `line raw ${colour(line.slot)}`, d: `M${path(line.x, line.raw)}` }));
    if (line.x.length > 1) svg.append(shape("path", { class: `line ${colour(line.slot)}`, d: `M${path(line.x, line.y)}` }));
    else svg.append(shape("circle", { class: `dot ${colour(line.slot)}`, cx: px(line.x[0]), cy: py(line.y[0]), r: 4 }));
  }
  const hover = { kind: "line", frame: [LEFT, TOP, INNER_WIDTH, INNER_HEIGHT], x: title, domain: [x.low, x.high], log: x.log };
  svg.dataset.hover = JSON.stringify({ ...hover, lines: lines.map((line) => [line.label, line.slot, line.x, line.y]) });
}

function frame(x, y, px, py, title, yTitle) {
  const base = TOP + INNER_HEIGHT, rules = y.ticks.map((tick) => `M${LEFT} ${py(tick)}h${INNER_WIDTH}`).join("");
  return [
    shape("path", { class: "grid", d: rules }),
    ...y.ticks.map((tick) => shape("text", { x: LEFT - 7, y: Number(py(tick)) + 3.8, class: "tick end" }, written(tick))),
    ...x.ticks.map((tick) => shape("text", { x: px(tick), y: base + 15, class: "tick mid" }, written(tick))),
    shape("text", { x: LEFT + INNER_WIDTH, y: base + 30, class: "axis end" }, title),
    shape("text", { x: 0, y: 11, class: "axis" }, yTitle),
  ];
}

function colour(slot) {
  return `c${slot % 8} d${Math.floor(slot / 8) % 3}`;
}
