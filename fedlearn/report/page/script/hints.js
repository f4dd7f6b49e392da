// The numbers under the pointer.
const hint = document.getElementById("hint");
const MOST = 12; // lines in the hint

function number(value) {
  const size = Math.abs(value);
  if (size !== 0 && (size < 0.001 || size >= 1e6)) return value.toExponential(3);
  return String(Number(value.toPrecision(5)));
}

// Each kind of chart: (its data, place in its drawing) -> {title, items: [[name, value, classes]], x}
const READERS = {
  line(data, x) {
    const [left, , width] = data.frame, [low, high] = data.domain;
    const place = (value) => left + width * (data.log ? Math.log(value / low) / Math.log(high / low) : (value - low) / (high - low));
    const items = data.lines.map(([name, slot, xs, ys]) => {
      let best = 0;
      xs.forEach((value, i) => { if (Math.abs(place(value) - x) < Math.abs(place(xs[best]) - x)) best = i; });
      return { name, slot, x: xs[best], y: ys[best] };
    });
    if (!items.length) return null;
    const near = items.reduce((a, b) => (Math.abs(place(b.x) - x) < Math.abs(place(a.x) - x) ? b : a));
    const shown = items.filter((item) => Math.abs(place(item.x) - place(near.x)) <= width / 50).sort((a, b) => b.y - a.y);
    return {
      title: ["round", "rank"].includes(data.x) ? `${data.x} ${near.x}` : `${number(near.x)} ${data.x}`,
      items: shown.map((item) => [item.name, number(item.y), `c${item.slot % 8}`]),
      x: place(near.x),
    };
  },
  bars(data, x) {
    const [left, , width] = data.frame, [low, high] = data.domain, [mark, marks] = data.mark;
    const at = Math.round(low + ((x - left) / width) * (high - low));
    const place = data.places.findIndex((first) => first <= at && at < first + data.each);
    if (place < 0) return null;
    const items = data.layers.map(([name, heights]) => [name, number(heights[place]), `f-${name}`]);
    if (marks.length) items.push([mark, number(marks[place]), "mark"]);
    return { title: data.names[place] || `${data.x} ${data.places[place]}`, items };
  },
  dots(data, x, y) {
    const away = (dot) => Math.hypot(dot[4] - x, dot[5] - y);
    const dot = data.dots.reduce((a, b) => (away(b) < away(a) ? b : a));
    if (away(dot) > 24) return null;
    return { title: dot[0], items: [[data.y, number(dot[3]), `c${dot[1] % 8}`], [data.x, number(dot[2]), ""]] };
  },
  cells(data, x, y) {
    const column = Math.floor((x - data.frame[0]) / data.cell[0]);
    const row = data.cell[1] ? Math.floor((y - data.frame[1]) / data.cell[1]) : 0;
    if (!(data.counts[0] && column in data.counts[0])) return null;
    const sum = (counts) => counts.reduce((a, b) => a + b, 0);
    if (data.columns.length) {
      if (!(row in data.counts)) return null;
      const all = sum(data.counts[row]), count = data.counts[row][column];
      const share = all ? `${count} (${number((100 * count) / all)} %)` : String(count);
      return { title: `${data.word} ${data.rows[row]}`, items: [[`taken for ${data.columns[column]}`, share, ""], ["all", all, ""]] };
    }
    const items = [["all", sum(data.counts.map((counts) => counts[column])), ""]];
    if (data.rows.length > 1 && row in data.counts) items.unshift([`${data.word} ${data.rows[row]}`, data.counts[row][column], ""]);
    return { title: `node ${column}`, items };
  },
};

function element(name, text, kind) {
  const made = document.createElement(name);
  if (text !== undefined) made.textContent = text;
  if (kind) made.className = kind;
  return made;
}

function shape(name, attributes, text) {
  const made = document.createElementNS("http://www.w3.org/2000/svg", name);
  for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
  if (text !== undefined) made.textContent = text;
  return made;
}

function hide() {
  hint.hidden = true;
  document.querySelectorAll("line.rule").forEach((rule) => rule.remove());
}

function show(event) {
  const svg = event.target.closest ? event.target.closest("svg[data-hover]") : null;
  hide();
  if (!svg) return;
  const data = JSON.parse(svg.dataset.hover), box = svg.getBoundingClientRect();
  const scale = svg.viewBox.baseVal.width / box.width;
  const found = READERS[data.kind](data, (event.clientX - box.left) * scale, (event.clientY - box.top) * scale);
  if (!found || !found.items.length) return;
  hint.replaceChildren(element("b", found.title));
  for (const [name, value, kind] of found.items.slice(0, MOST)) {
    const line = element("span");
    if (kind) line.append(element("i", "", kind));
    line.append(name, element("em", value));
    hint.append(line);
  }
  if (found.items.length > MOST) hint.append(element("span", `and ${found.items.length - MOST} more`));
  const [, top, , height] = data.frame;
  if (found.x !== undefined) svg.append(shape("line", { class: "rule", x1: found.x, x2: found.x, y1: top, y2: top + height }));
  hint.hidden = false;
  const { offsetWidth: wide, offsetHeight: high } = hint;
  hint.style.left = `${Math.max(4, event.clientX + 14 + wide > innerWidth ? event.clientX - wide - 14 : event.clientX + 14)}px`;
  hint.style.top = `${Math.max(4, Math.min(event.clientY + 14, innerHeight - high - 4))}px`;
}

document.addEventListener("pointermove", show);
document.addEventListener("pointerdown", show);
document.addEventListener("scroll", hide, { passive: true });
addEventListener("beforeprint", () => document.querySelectorAll("details").forEach((each) => { each.open = true; }));
