// What the reader has chosen: axis, smoothing, runs, groups, order. It outlives the sections of a live page.
const choice = { axis: "rounds", smooth: 0, band: "sd", logx: false, logy: false, client: "", group: "", filter: "", column: -1, falling: false };
const unchosen = new Set(); // names of runs whose box is not ticked

function isFound(row) {
  const text = row.dataset.find;
  return choice.filter.toLowerCase().split(/\s+/).every((word) => text.includes(word));
}

function apply() {
  const rows = [...document.querySelectorAll("tr[data-run]")];
  const lost = new Set(rows.filter((row) => !isFound(row)).map((row) => row.dataset.run));
  const isShown = (name) => !unchosen.has(name) && !lost.has(name);
  for (const row of rows) {
    row.hidden = lost.has(row.dataset.run);
    row.classList.toggle("off", unchosen.has(row.dataset.run));
    row.querySelector("input").checked = !unchosen.has(row.dataset.run);
  }
  for (const all of document.querySelectorAll("[name=all]")) all.checked = !rows.some((row) => unchosen.has(row.dataset.run));
  for (const part of document.querySelectorAll("[data-of]")) part.hidden = !isShown(part.dataset.of);
  for (const table of new Set(rows.map((row) => row.closest("table")))) sort(table);
  for (const control of document.querySelectorAll(".tools [name]")) {
    if (control === document.activeElement) continue;
    if (control.type === "radio") control.checked = control.value === choice[control.name];
    else if (control.type === "checkbox") control.checked = choice[control.name];
    else control.value = choice[control.name];
  }
  for (const grid of document.querySelectorAll("[data-curves]")) {
    const data = JSON.parse(grid.dataset.curves);
    for (const svg of grid.querySelectorAll("svg[data-metric]")) draw(svg, data, choice, isShown);
    name(grid, data, isShown);
    for (const title of grid.querySelectorAll("h3")) {
      title.textContent = title.textContent.replace(/ by (round|uploaded bytes|time|virtual time)$/, ` by ${AXES[choice.axis]}`);
    }
  }
  for (const svg of document.querySelectorAll("svg[data-own]")) drawOwn(svg, choice.client);
  for (const words of document.querySelectorAll(".band-words")) words.textContent = BANDS[choice.band][0];
  for (const head of document.querySelectorAll("table.runs thead th:not(.pick)")) head.tabIndex = 0;
  offerFiles();
}

const AXES = { rounds: "round", bytes: "uploaded bytes", seconds: "time", hours: "virtual time" };

function name(grid, data, isShown) {
  const names = grid.previousElementSibling, groups = groupsOf(data, choice.group).filter((group) => group.runs.some((run) => isShown(run.name)));
  const list = element("ul", undefined, "legend");
  for (const group of groups) {
    const item = element("li");
    item.append(element("i", "", colour(group.slot)), group.label);
    list.append(item);
  }
  if (data.parted && choice.axis === "rounds") {
    const item = element("li");
    item.append(element("i", "", "parted"), `they part in round ${data.parted}`);
    list.append(item);
  }
  names.replaceChildren(...(groupsOf(data, choice.group).length > 1 ? [list] : []));
}

function sort(table) {
  if (choice.column < 0) return;
  const body = table.tBodies[0], key = (row) => row.cells[choice.column].dataset.sort ?? row.cells[choice.column].textContent;
  const compare = (a, b) => {
    const [x, y] = [key(a), key(b)], difference = Number(x) - Number(y);
    return x === "" || y === "" ? (x === "") - (y === "") : (Number.isNaN(difference) ? x.localeCompare(y) : difference) * (choice.falling ? -1 : 1);
  };
  body.append(...[...body.rows].sort(compare));
  for (const [place, head] of [...table.tHead.rows[0].cells].entries()) {
    if (place === choice.column) head.setAttribute("aria-sort", choice.falling ? "descending" : "ascending");
    else head.removeAttribute("aria-sort");
  }
}

document.addEventListener("input", (event) => {
  const control = event.target, row = control.closest("tr[data-run]");
  if (control.name === "all") {
    for (const each of document.querySelectorAll("tr[data-run]")) {
      if (!each.hidden) unchosen[control.checked ? "delete" : "add"](each.dataset.run);
    }
  } else if (row) {
    unchosen[control.checked ? "delete" : "add"](row.dataset.run);
  } else if (control.closest(".tools")) {
    choice[control.name] = control.type === "checkbox" ? control.checked : control.type === "range" ? Number(control.value) : control.value;
  }
  apply();
});

for (const kind of ["click", "keydown"]) document.addEventListener(kind, (event) => {
  const head = event.target.closest("table.runs thead th");
  if (!head || head.querySelector("input") || (kind === "keydown" && event.key !== "Enter")) return;
  choice.falling = choice.column === head.cellIndex && !choice.falling;
  choice.column = head.cellIndex;
  apply();
});

document.body.classList.add("scripted");
apply();
