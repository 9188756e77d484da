// What a view consists of and what it shows at the moment. The functions of the other files get it as `view`.

function element(name, className, parent) {
  const node = document.createElement(name);
  node.className = className;
  parent.append(node);
  return node;
}

let families = 0;

function newView(model, el) {
  const family = `attention-tokens-${++families}`; // glyphs that the reader's system may lack
  const root = element("div", "attention-view", el);
  root.setAttribute("role", "group");
  const holder = element("div", "panels", root);
  const readout = element("p", "readout", root);
  readout.setAttribute("aria-live", "polite");
  const caption = element("p", "caption", root);
  const problem = element("p", "problem", root);
  problem.setAttribute("role", "alert");
  const view = {
    model,
    family,
    font: `400 ${STYLE.VIEW_SIZE}px ${family}, sans-serif`,
    titleFont: `600 ${STYLE.VIEW_TITLE_SIZE}px ${family}, sans-serif`,
    ruler: document.createElement("canvas").getContext("2d"),
    root,
    holder,
    readout,
    caption,
    problem,
    panels: [], // what is drawn: the layout with values and places
    parts: [], // one per panel: {figure, canvas, title, selected: [row, column] or null}
    settling: 0, // the timer after which room is given back
    zoom: 1, // of the panels: the size of the page's letters over that for which they are placed
    theme: {}, // of the page, as the colour of its text tells
    shown: null, // index of the panel that the readout speaks of
    waiting: false, // for the next frame
  };
  return Object.assign(view, makeTools(view));
}

// The layout that Python sent, with values and places, in the colours that the reader has chosen.
function arrangedPanels(view) {
  view.ruler.font = view.font;
  view.zoom = parseFloat(getComputedStyle(view.root).fontSize) / STYLE.VIEW_TITLE_SIZE;
  const replaced = STYLE.CHOICES[view.colours.value].palettes;
  const layout = view.model.get("panel_layout").map((panel) => ({
    ...panel,
    values: decoded(view.model.get("values"), panel),
    palette: replaced[panel.palette] || panel.palette,
  }));
  return arrange(layout, view.ruler, view.holder.clientWidth / view.zoom);
}

function decoded(bytes, panel) {
  const at = (_, i) => bytes.getFloat32(4 * (panel.offset + i), true);
  return Float32Array.from({ length: panel.rows * panel.columns }, at);
}

function select(view, index, row, column) {
  const clamp = (x, top) => Math.min(Math.max(x, 0), top - 1);
  for (const part of view.parts) part.selected = null;
  view.parts[index].selected = [clamp(row, view.panels[index].rows), clamp(column, view.panels[index].columns)];
  read(view, index);
  schedule(view);
}

function letGo(view) {
  for (const part of view.parts) part.selected = null;
  view.shown = null;
  schedule(view);
}

// A cell that is no longer there is not selected any more.
function forget(view, index) {
  const { rows, columns } = view.panels[index];
  const { selected } = view.parts[index];
  if (!selected || (selected[0] < rows && selected[1] < columns)) return;
  view.parts[index].selected = null;
  if (view.shown === index) view.shown = null;
}

function read(view, index) {
  const { selected } = view.parts[index];
  if (!selected) return;
  view.shown = index;
  view.readout.textContent = reading(view.panels[index], ...selected);
}

// What the page tells of what was drawn, for tests.
function tell(view) {
  view.root.drawn = view.panels.map((panel) => ({
    title: panel.title,
    kind: panel.kind,
    rows: panel.rows,
    columns: panel.columns,
    values: panel.values,
    rowLabels: panel.row_labels,
    columnLabels: panel.column_labels,
    palette: panel.palette,
    low: panel.low,
    high: panel.high,
    cell: panel.cell,
    origin: panel.origin,
  }));
  view.root.dataset.frame = Number(view.root.dataset.frame || 0) + 1;
}
