"use strict";
// Two things: the numbers under the pointer, and on a live page the sections that have changed.
(() => {
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
        title: data.x === "round" ? `round ${near.x}` : `${number(near.x)} ${data.x}`,
        items: shown.map((item) => [item.name, number(item.y), `c${item.slot % 8}`]),
        x: place(near.x),
      };
    },
    bars(data, x) {
      const [left, , width] = data.frame, [low, high] = data.domain;
      const place = data.rounds.indexOf(Math.round(low + ((x - left) / width) * (high - low)));
      if (place < 0) return null;
      return {
        title: `round ${data.rounds[place]}`,
        items: data.layers.map(([name, heights]) => [name, number(heights[place]), `f-${name}`]),
      };
    },
    dots(data, x, y) {
      const away = (dot) => Math.hypot(dot[4] - x, dot[5] - y);
      const dot = data.dots.reduce((a, b) => (away(b) < away(a) ? b : a));
      if (away(dot) > 24) return null;
      return { title: dot[0], items: [[data.y, number(dot[3]), `c${dot[1] % 8}`], [data.x, number(dot[2]), ""]] };
    },
    cells(data, x, y) {
      const column = Math.floor((x - data.frame[0]) / data.cell[0]), row = Math.floor((y - data.frame[1]) / data.cell[1]);
      if (!(data.counts[row] && column in data.counts[row])) return null;
      const total = data.counts.reduce((sum, counts) => sum + counts[column], 0);
      const name = `${data.word} ${data.rows[row]}`;
      return { title: `node ${column}`, items: [[name, data.counts[row][column], ""], ["all", total, ""]] };
    },
  };

  function element(name, text, kind) {
    const made = document.createElement(name);
    if (text !== undefined) made.textContent = text;
    if (kind) made.className = kind;
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
    if (found.x !== undefined) rule(svg, data.frame, found.x);
    hint.hidden = false;
    const { offsetWidth: width, offsetHeight: height } = hint;
    hint.style.left = `${Math.max(4, event.clientX + 14 + width > innerWidth ? event.clientX - width - 14 : event.clientX + 14)}px`;
    hint.style.top = `${Math.max(4, Math.min(event.clientY + 14, innerHeight - height - 4))}px`;
  }

  function rule(svg, frame, x) {
    const line = document.createElementNS("http://www.w3.org/2000/svg", "line");
    const ends = { class: "rule", x1: x, x2: x, y1: frame[1], y2: frame[1] + frame[3] };
    for (const [name, value] of Object.entries(ends)) line.setAttribute(name, value);
    svg.append(line);
  }

  document.addEventListener("pointermove", show);
  document.addEventListener("pointerdown", show);
  document.addEventListener("scroll", hide, { passive: true });

  addEventListener("beforeprint", () => document.querySelectorAll("details").forEach((each) => { each.open = true; }));

  const address = document.body.dataset.stream;
  if (!address) return;

  const state = element("div", "");
  state.id = "link";
  state.setAttribute("role", "status");
  document.body.append(state);

  function replace(id, html) {
    const section = document.getElementById(id);
    if (!section || section.innerHTML === html) return;
    const opened = new Map([...section.querySelectorAll("details[id]")].map((each) => [each.id, each.open]));
    section.innerHTML = html;
    for (const each of section.querySelectorAll("details[id]")) {
      if (opened.has(each.id)) each.open = opened.get(each.id);
    }
  }

  const stream = new EventSource(address);
  stream.onopen = () => { state.textContent = "connected"; };
  stream.onerror = () => { state.textContent = "connection lost, trying again"; };
  stream.onmessage = (event) => {
    for (const [id, html] of Object.entries(JSON.parse(event.data))) replace(id, html);
  };
  stream.addEventListener("end", () => {
    stream.close();
    state.textContent = "the run has ended";
  });
})();
