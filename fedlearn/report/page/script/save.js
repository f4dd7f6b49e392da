// Save a chart: as SVG and PNG from its drawing, as PDF by the browser's print of this chart only.
const KINDS = ["SVG", "PNG", "PDF"];
const LOOK = [
  "fill", "fill-opacity", "stroke", "stroke-width", "stroke-opacity", "stroke-dasharray", "stroke-linejoin", "stroke-linecap",
  "font-size", "text-anchor", "shape-rendering",
];
const MARGIN = 10, ROW = 16, SHARP = 3; // of a saved chart: units around it, height of a line, pixels of a unit

function offerFiles() {
  for (const figure of document.querySelectorAll("figure")) {
    if (figure.querySelector(".save")) continue;
    const title = figure.querySelector("h3"), bar = element("div", undefined, "save");
    for (const kind of KINDS) {
      const button = element("button", kind);
      button.type = "button";
      button.setAttribute("aria-label", `save ${title.textContent} as ${kind}`);
      bar.append(button);
    }
    title.before(bar);
  }
}

// A chart with its title and legend as a drawing that needs no style sheet, in the colors of paper.
function sheetOf(figure) {
  hide();
  document.documentElement.classList.add("light");
  const svg = figure.querySelector("svg"), { width, height } = svg.viewBox.baseVal, copy = svg.cloneNode(true);
  const made = copy.querySelectorAll("*");
  [...svg.querySelectorAll("*")].forEach((each, i) => {
    const look = getComputedStyle(each);
    made[i].removeAttribute("class");
    for (const name of LOOK) if (look[name] !== "none" || ["fill", "stroke"].includes(name)) made[i].setAttribute(name, look[name]);
  });
  const titles = figure.querySelector("h3").textContent.match(/.{1,58}(\s|$)|\S{58}/g) || [], top = MARGIN + ROW * titles.length;
  const names = (figure.querySelector(".legend") || figure.closest("[data-curves]")?.previousElementSibling)?.querySelectorAll("li") || [];
  const all = top + height + ROW * names.length + MARGIN, wide = width + 2 * MARGIN;
  const sheet = shape("svg", { xmlns: "http://www.w3.org/2000/svg", viewBox: `0 0 ${wide} ${all}`, width: wide, height: all });
  sheet.setAttribute("font-family", "system-ui, 'Liberation Sans', Arial, sans-serif");
  sheet.append(shape("rect", { width: wide, height: all, fill: "#fff" }));
  titles.forEach((line, i) => sheet.append(shape("text", { x: MARGIN, y: MARGIN + 10 + ROW * i, "font-size": 12, "font-weight": 600 }, line)));
  const chart = shape("g", { transform: `translate(${MARGIN} ${top})` });
  chart.append(...copy.childNodes);
  sheet.append(chart);
  [...names].forEach((name, i) => {
    const mark = name.querySelector("i"), look = getComputedStyle(mark), y = top + height + ROW * i + 4, isBox = mark.matches(".box");
    const dash = { dashed: "6 4", dotted: "1.5 4" }[look.borderTopStyle] || "none";
    const stroke = isBox ? look.backgroundColor : look.borderTopColor;
    sheet.append(shape("path", { d: `M${MARGIN} ${y}h18`, stroke, "stroke-width": isBox ? 9 : 2.5, "stroke-dasharray": dash }));
    sheet.append(shape("text", { x: MARGIN + 26, y: y + 4, "font-size": 11, fill: "#444" }, name.textContent));
  });
  document.documentElement.classList.remove("light");
  return sheet;
}

function give(blob, name) {
  const link = element("a");
  link.href = URL.createObjectURL(blob);
  link.download = name;
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 10000);
}

const SAVE = {
  SVG(text, name) { give(new Blob([text], { type: "image/svg+xml" }), `${name}.svg`); },
  PNG(text, name, { width, height }) {
    const image = new Image(), canvas = element("canvas");
    [canvas.width, canvas.height] = [SHARP * width, SHARP * height];
    image.onload = () => {
      canvas.getContext("2d").drawImage(image, 0, 0, canvas.width, canvas.height);
      canvas.toBlob((blob) => give(blob, `${name}.png`));
    };
    image.src = `data:image/svg+xml,${encodeURIComponent(text)}`;
  },
  PDF() {
    document.body.classList.add("one");
    print();
  },
};

document.addEventListener("click", (event) => {
  const button = event.target.closest(".save button");
  if (!button) return;
  const figure = button.closest("figure"), sheet = sheetOf(figure);
  document.getElementById("sheet").replaceChildren(sheet);
  const name = figure.querySelector("h3").textContent.toLowerCase().replace(/[^\p{L}\p{N}]+/gu, "_").slice(0, 80);
  SAVE[button.textContent](new XMLSerializer().serializeToString(sheet), name, sheet.viewBox.baseVal);
});
addEventListener("afterprint", () => document.body.classList.remove("one"));
