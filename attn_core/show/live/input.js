// What the reader does: points at panels, walks over them by keys, and uses the tools below them.

// Returns the choice of colours, the details with the numbers, and the sheet in them.
function makeTools(view) {
  const tools = element("div", "tools", view.root);
  const choice = element("label", "", tools);
  choice.textContent = "Colours ";
  const colours = element("select", "", choice);
  for (const name of Object.keys(STYLE.CHOICES)) element("option", "", colours).textContent = name;
  colours.addEventListener("change", () => schedule(view));
  const files = element("span", "", tools);
  files.setAttribute("role", "group");
  files.setAttribute("aria-label", "Save");
  files.textContent = "Save ";
  const kinds = { PNG: "picture", SVG: "picture", CSV: "numbers" };
  for (const [kind, what] of Object.entries(kinds)) {
    const button = element("button", "", files);
    button.type = "button";
    button.textContent = kind;
    button.setAttribute("aria-label", `Save ${what} as ${kind}`);
    button.addEventListener("click", () => saveAs(view, kind));
  }
  const numbers = element("details", "numbers", view.root);
  element("summary", "", numbers).textContent = "Numbers as a table";
  const sheet = element("div", "sheet", numbers);
  sheet.tabIndex = 0; // wide tables scroll, by keyboard as well
  sheet.setAttribute("role", "region");
  numbers.addEventListener("toggle", () => fillTable(view));
  // Else JupyterLab would take letters and Enter for commands on the cell.
  const keep = (event) => event.ctrlKey || event.metaKey || event.stopPropagation();
  for (const part of [tools, numbers]) part.addEventListener("keydown", keep);
  return { colours, numbers, sheet };
}

function makePart(view, index) {
  const figure = element("figure", "panel", view.holder);
  const title = element("figcaption", "", figure);
  const canvas = element("canvas", "", figure);
  canvas.tabIndex = 0;
  canvas.setAttribute("role", "img");
  for (const moved of ["pointermove", "pointerdown"]) {
    canvas.addEventListener(moved, (event) => point(view, index, event));
  }
  canvas.addEventListener("pointerleave", () => {
    if (view.panels[index].kind === "lines" && document.activeElement !== canvas) letGo(view);
  });
  canvas.addEventListener("focus", () => {
    const panel = view.panels[index];
    if (!view.parts[index].selected) select(view, index, 0, panel.kind === "lines" ? strongest(panel, 0, null) : 0);
  });
  canvas.addEventListener("keydown", (event) => walk(view, index, event));
  return { figure, canvas, title, selected: null };
}

function point(view, index, event) {
  const panel = view.panels[index];
  const box = view.parts[index].canvas.getBoundingClientRect();
  const scale = panel.size[0] / box.width; // not 1 on a slide, which is fitted to the screen
  const x = (event.clientX - box.left) * scale - panel.origin[0];
  const y = (event.clientY - box.top) * scale - panel.origin[1];
  const row = Math.floor(y / panel.cell[1]);
  if (panel.kind === "lines") return pointAtToken(view, index, row, x < panel.cell[0] / 2);
  const column = Math.floor(x / panel.cell[0]);
  if (row >= 0 && column >= 0 && row < panel.rows && column < panel.columns) select(view, index, row, column);
}

// On the left half a query with its strongest key, on the right half a key for the query that is selected.
function pointAtToken(view, index, place, onQueries) {
  const panel = view.panels[index];
  if (onQueries && place >= 0 && place < panel.rows) select(view, index, place, strongest(panel, place, null));
  if (onQueries || place < 0 || place >= panel.columns) return;
  select(view, index, view.parts[index].selected?.[0] ?? strongest(panel, null, place), place);
}

function walk(view, index, event) {
  const moves = { ArrowUp: [-1, 0], ArrowDown: [1, 0], ArrowLeft: [0, -1], ArrowRight: [0, 1] };
  const move = moves[event.key];
  if (!move && event.key !== "Escape") return;
  event.preventDefault();
  event.stopPropagation();
  if (!move) return letGo(view);
  const [row, column] = view.parts[index].selected || [0, 0];
  select(view, index, row + move[0], column + move[1]);
  if (view.panels[index].kind === "map") reveal(view, index);
}

// Where the maps are wider than the page, the column of the selected cell comes into sight.
function reveal({ holder, panels, parts }, index) {
  const { origin, cell, size } = panels[index];
  const [box, canvas] = [holder, parts[index].canvas].map((node) => node.getBoundingClientRect());
  const scale = canvas.width / size[0]; // pixels of the screen for one of the panel
  const zoom = box.width / holder.clientWidth; // of a slide, which is fitted to the screen
  const left = (canvas.left - box.left + (origin[0] + parts[index].selected[1] * cell[0]) * scale) / zoom;
  const beyond = left + (cell[0] * scale) / zoom - holder.clientWidth;
  if (left < 0) holder.scrollLeft += left;
  if (beyond > 0) holder.scrollLeft += beyond;
}

// The strongest key of a query, or the query that looks most at a key.
function strongest({ values, rows, columns }, row, column) {
  const line = row === null ? Array.from({ length: rows }, (_, i) => i * columns + column) : null;
  const places = line || Array.from({ length: columns }, (_, j) => row * columns + j);
  return places.reduce((best, place, i) => (values[place] > values[places[best]] ? i : best), 0);
}

// ipywidgets leaves the handles of its sliders without a name, and lets those of lists say a number instead of the entry.
function nameSliders(root) {
  for (const slider of root.closest(".widget-vbox")?.querySelectorAll(":scope > .widget-slider") || []) {
    const name = slider.querySelector(".widget-label").textContent;
    const typed = slider.querySelector(".widget-readout");
    const handle = slider.querySelector(".noUi-handle");
    handle.setAttribute("aria-label", name);
    const entry = typed.textContent;
    if (handle.getAttribute("aria-valuetext") !== entry) handle.setAttribute("aria-valuetext", entry);
    typed.setAttribute("role", "textbox");
    typed.setAttribute("aria-label", `${name}, typed`);
  }
}

// Options that arrive later write the number again. Returns what ends the watch, and what begins it once there is a box.
function watchSliders(root) {
  const renamed = new MutationObserver(() => nameSliders(root));
  const begin = () => {
    const box = root.closest(".widget-vbox");
    if (box) renamed.observe(box, { subtree: true, attributeFilter: ["aria-valuetext"] });
  };
  return { begin, end: () => renamed.disconnect() };
}
