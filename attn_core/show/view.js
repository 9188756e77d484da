// Draws matrices and bars on canvases. All values come from Python; nothing here computes attention.
const NUMBERS_UP_TO = 8;
const GAP = 6;
const BAR = { most: 260, least: 60, row: 26, colour: "#0173b2" }; // pixels; the colour is that of the figures

function shorterSide(longest, count) {
  if (longest <= 4) return 46;
  if (longest <= NUMBERS_UP_TO) return 40;
  return Math.max(3, Math.floor((count > 1 ? 190 : 420) / longest));
}

function cellSize(panel, count) {
  const side = shorterSide(Math.max(panel.rows, panel.columns), count);
  return panel.stretch.map((factor) => Math.floor(side * factor)); // width, height
}

function hint(layout) {
  if (layout.every((panel) => panel.kind === "map")) return "Point at a cell, or focus a map and use the arrow keys.";
  return "Point at a bar, or focus a group of bars and use the arrow keys.";
}

function label(panel) {
  if (panel.kind === "bars") {
    const bars = panel.row_labels.map((name, row) => `${name}: ${panel.texts[row]}`);
    return `${panel.title}: ${bars.join("; ")}. Arrow keys read the bars.`;
  }
  return (
    `${panel.title}: ${panel.rows} rows (${panel.row_name}), ${panel.columns} columns ` +
    `(${panel.column_name}). Arrow keys read the cells.`
  );
}

function spoken(value, unit) {
  if (unit === "bucket") return String(value);
  return Number.isFinite(value) ? value.toFixed(4) : "hidden by the mask";
}

function written(value) {
  if (!Number.isFinite(value)) return "−∞";
  const text = value.toFixed(2).replace("-", "−");
  return text === "−0.00" ? "0.00" : text;
}

function isDark(colour) {
  const [r, g, b] = [1, 3, 5].map((i) => parseInt(colour.slice(i, i + 2), 16));
  return 0.2126 * r + 0.7152 * g + 0.0722 * b < 128;
}

function element(name, className, parent) {
  const node = document.createElement(name);
  node.className = className;
  parent.append(node);
  return node;
}

// ipywidgets leaves the handles of its sliders without a name, and lets those of lists say a number instead of the entry.
function nameSliders(root) {
  for (const slider of root.closest(".widget-vbox")?.querySelectorAll(":scope > .widget-slider") || []) {
    const name = slider.querySelector(".widget-label").textContent;
    const typed = slider.querySelector(".widget-readout");
    const handle = slider.querySelector(".noUi-handle");
    handle.setAttribute("aria-label", name);
    handle.setAttribute("aria-valuetext", typed.textContent);
    typed.setAttribute("role", "textbox");
    typed.setAttribute("aria-label", `${name}, typed`);
  }
}

let families = 0;

function render({ model, el }) {
  const family = `attention-tokens-${++families}`; // glyphs that the reader's system may lack
  const font = `12px ${family}, sans-serif`;
  const root = element("div", "attention-view", el);
  root.setAttribute("role", "group");
  const holder = element("div", "panels", root);
  const readout = element("p", "readout", root);
  readout.setAttribute("aria-live", "polite");
  const numbers = element("details", "numbers", root);
  element("summary", "", numbers).textContent = "Numbers as a table";
  const page = element("div", "page", numbers);
  page.tabIndex = 0; // wide tables scroll, by keyboard as well
  page.setAttribute("role", "region");
  numbers.addEventListener("toggle", fillTable);
  const caption = element("p", "caption", root);
  const problem = element("p", "problem", root);
  problem.setAttribute("role", "alert");
  let parts = []; // one per panel: {canvas, title, selected: [row, column] or null}
  let shown = null; // index of the panel that the readout speaks of
  let values = []; // one Float32Array per panel, row by row

  function decoded(panel) {
    const bytes = model.get("values");
    const at = (_, i) => bytes.getFloat32(4 * (panel.offset + i), true);
    return Float32Array.from({ length: panel.rows * panel.columns }, at);
  }

  function valueAt(index, row, column) {
    return values[index][row * model.get("panel_layout")[index].columns + column];
  }

  function fillTable() {
    page.replaceChildren(); // a closed one stays empty, so that sliders stay fast
    const index = shown || 0;
    const panel = model.get("panel_layout")[index];
    if (!numbers.open || !panel) return;
    const table = element("table", "", page);
    const heading = (text, scope, row) => {
      const cell = element("th", "", row);
      cell.scope = scope;
      cell.textContent = text;
    };
    element("caption", "", table).textContent = panel.title;
    page.setAttribute("aria-label", `Numbers: ${panel.title}`);
    const head = element("tr", "", element("thead", "", table));
    heading(`${panel.row_name} / ${panel.column_name}`, "col", head);
    for (const name of panel.column_labels) heading(name, "col", head);
    const body = element("tbody", "", table);
    panel.row_labels.forEach((name, row) => {
      const line = element("tr", "", body);
      heading(name, "row", line);
      panel.column_labels.forEach((_, column) => {
        const text = panel.kind === "bars" ? panel.texts[row] : spoken(valueAt(index, row, column), panel.unit);
        element("td", "", line).textContent = text;
      });
    });
  }

  function read(index) {
    const selected = parts[index].selected;
    if (!selected) return;
    const panel = model.get("panel_layout")[index];
    const [row, column] = selected;
    shown = index;
    if (panel.kind === "bars") {
      readout.textContent = `${panel.title}: ${panel.row_labels[row]}: ${panel.texts[row]}`;
      return;
    }
    readout.textContent =
      `${panel.title}: ${panel.row_name} ${panel.row_labels[row]} → ` +
      `${panel.column_name} ${panel.column_labels[column]}: ` +
      `${panel.unit} ${spoken(valueAt(index, row, column), panel.unit)}`;
  }

  function select(index, row, column) {
    const panel = model.get("panel_layout")[index];
    const clamp = (x, top) => Math.min(Math.max(x, 0), top - 1);
    for (const part of parts) part.selected = null;
    parts[index].selected = [clamp(row, panel.rows), clamp(column, panel.columns)];
    read(index);
    schedule();
  }

  function margins(panel, context) {
    const widest = (labels) => Math.max(...labels.map((label) => context.measureText(label).width));
    const [cellWidth] = parts.cell[model.get("panel_layout").indexOf(panel)];
    const columnWidth = widest(panel.column_labels);
    const slanted = columnWidth > cellWidth - 2;
    // Whole pixels: else seams show between small cells.
    const left = Math.ceil(widest(panel.row_labels)) + 2 * GAP + 14;
    return { left, top: (slanted ? Math.ceil(columnWidth) : 12) + 2 * GAP + 14, slanted };
  }

  function prepare(canvas, width, height) {
    const context = canvas.getContext("2d");
    const ratio = window.devicePixelRatio || 1;
    if (canvas.width !== Math.round(width * ratio) || canvas.height !== Math.round(height * ratio)) {
      canvas.width = Math.round(width * ratio);
      canvas.height = Math.round(height * ratio);
      canvas.style.width = `${width}px`;
      canvas.style.height = `${height}px`;
    }
    context.setTransform(ratio, 0, 0, ratio, 0, 0);
    context.clearRect(0, 0, width, height);
    context.font = font;
    context.textBaseline = "middle";
  }

  function drawBars(index) {
    const layout = model.get("panel_layout");
    const { canvas, selected } = parts[index];
    const context = canvas.getContext("2d");
    context.font = font;
    // As wide in every panel: bars that stand below one another begin and end together.
    const widest = (field) => {
      const texts = layout.filter((panel) => panel.kind === "bars").flatMap((panel) => panel[field]);
      return Math.ceil(Math.max(...texts.map((text) => context.measureText(text).width)));
    };
    const left = widest("row_labels") + 2 * GAP;
    const right = widest("texts") + 3 * GAP;
    const bar = Math.min(Math.max(holder.clientWidth - left - right, BAR.least), BAR.most);
    const width = left + bar + right;
    const panel = layout[index];
    parts[index].origin = [0, 0];
    parts.cell[index] = [width, BAR.row]; // label and text can be pointed at as well
    prepare(canvas, width, panel.rows * BAR.row);
    const ink = getComputedStyle(root).color;
    for (let i = 0; i < panel.rows; i++) {
      const y = i * BAR.row;
      context.fillStyle = BAR.colour;
      context.fillRect(left, y + 4, (bar * valueAt(index, i, 0)) / panel.high, BAR.row - 8);
      context.strokeStyle = context.fillStyle = ink;
      context.lineWidth = 1;
      context.globalAlpha = 0.4; // the whole, of which the bar is a share
      context.strokeRect(left + 0.5, y + 4.5, bar - 1, BAR.row - 9);
      context.globalAlpha = 1;
      context.textAlign = "right";
      context.fillText(panel.row_labels[i], left - GAP, y + BAR.row / 2);
      context.textAlign = "left";
      context.fillText(panel.texts[i], left + bar + GAP, y + BAR.row / 2);
      if (!selected || selected[0] !== i) continue;
      context.lineWidth = 2;
      context.strokeRect(1, y + 1, width - 2, BAR.row - 2);
    }
  }

  function draw(index) {
    const panel = model.get("panel_layout")[index];
    if (panel.kind === "bars") return drawBars(index);
    const { canvas, selected } = parts[index];
    const [cellWidth, cellHeight] = parts.cell[index];
    const context = canvas.getContext("2d");
    context.font = font;
    const { left, top, slanted } = margins(panel, context);
    const width = Math.ceil(left + panel.columns * cellWidth + 2);
    const height = Math.ceil(top + panel.rows * cellHeight + 2);
    parts[index].origin = [left, top];
    prepare(canvas, width, height);
    const ink = getComputedStyle(root).color;
    const palette = model.get("palettes")[panel.palette];
    const line = Math.min(cellWidth, cellHeight) > 6 ? 1 : 0; // between cells, where there is room
    const numbers = Math.max(panel.rows, panel.columns) <= NUMBERS_UP_TO;
    for (let i = 0; i < panel.rows; i++) {
      for (let j = 0; j < panel.columns; j++) {
        const value = valueAt(index, i, j);
        const level = Math.round((255 * (value - panel.low)) / (panel.high - panel.low));
        const colour = Number.isFinite(value) ? palette[Math.min(Math.max(level, 0), 255)] : "#d0d0d0";
        const x = left + j * cellWidth;
        const y = top + i * cellHeight;
        context.fillStyle = colour;
        context.fillRect(x, y, cellWidth - line, cellHeight - line);
        if (numbers) {
          context.fillStyle = isDark(colour) ? "#ffffff" : "#000000";
          context.textAlign = "center";
          context.fillText(written(value), x + cellWidth / 2, y + cellHeight / 2);
        }
      }
    }
    context.fillStyle = ink;
    const every = (size) => Math.max(1, Math.ceil(13 / size)); // the labels that fit
    context.textAlign = "right";
    for (let i = 0; i < panel.rows; i += every(cellHeight)) {
      context.fillText(panel.row_labels[i], left - GAP, top + (i + 0.5) * cellHeight);
    }
    for (let j = 0; j < panel.columns; j += every(cellWidth)) {
      context.save();
      context.translate(left + (j + 0.5) * cellWidth, top - GAP);
      context.textAlign = slanted ? "left" : "center";
      if (slanted) context.rotate(-Math.PI / 2);
      else context.translate(0, -6);
      context.fillText(panel.column_labels[j], 0, 0);
      context.restore();
    }
    context.globalAlpha = 0.75;
    context.textAlign = "left";
    context.fillText(`${panel.column_name} →`, left, 8);
    context.save();
    context.translate(8, top + panel.rows * cellHeight);
    context.rotate(-Math.PI / 2);
    context.fillText(`← ${panel.row_name}`, 0, 0);
    context.restore();
    context.globalAlpha = 1;
    if (selected) {
      context.strokeStyle = ink;
      context.lineWidth = 2;
      const [x, y] = [left + selected[1] * cellWidth, top + selected[0] * cellHeight];
      context.strokeRect(x, y, cellWidth - 1, cellHeight - 1);
    }
  }

  function makePanel(index) {
    const figure = element("figure", "panel", holder);
    const title = element("figcaption", "", figure);
    const canvas = element("canvas", "", figure);
    canvas.tabIndex = 0;
    canvas.setAttribute("role", "img");
    const cellUnder = (event) => {
      const box = canvas.getBoundingClientRect();
      const [left, top] = parts[index].origin;
      const [cellWidth, cellHeight] = parts.cell[index];
      const panel = model.get("panel_layout")[index];
      const row = Math.floor((event.clientY - box.top - top) / cellHeight);
      const column = Math.floor((event.clientX - box.left - left) / cellWidth);
      const inside = row >= 0 && column >= 0 && row < panel.rows && column < panel.columns;
      if (inside) select(index, row, column);
    };
    canvas.addEventListener("pointermove", cellUnder);
    canvas.addEventListener("pointerdown", cellUnder);
    canvas.addEventListener("focus", () => {
      if (!parts[index].selected) select(index, 0, 0);
    });
    canvas.addEventListener("keydown", (event) => {
      const moves = { ArrowUp: [-1, 0], ArrowDown: [1, 0], ArrowLeft: [0, -1], ArrowRight: [0, 1] };
      const move = moves[event.key];
      if (!move) return;
      event.preventDefault();
      event.stopPropagation();
      const [row, column] = parts[index].selected || [0, 0];
      select(index, row + move[0], column + move[1]);
    });
    return { canvas, title, selected: null, origin: [0, 0] };
  }

  function update() {
    const layout = model.get("panel_layout");
    if (parts.length !== layout.length) {
      holder.replaceChildren();
      parts = layout.map((_, index) => makePanel(index));
      shown = null;
    }
    values = layout.map(decoded);
    parts.cell = layout.map((panel) => cellSize(panel, layout.length));
    layout.forEach((panel, index) => {
      const { title, canvas, selected } = parts[index];
      title.textContent = panel.title;
      canvas.setAttribute("aria-label", label(panel));
      if (selected && (selected[0] >= panel.rows || selected[1] >= panel.columns)) parts[index].selected = null;
      draw(index);
    });
    // Room once taken is kept, so that the page below does not jump while a slider moves.
    holder.style.minHeight = `${Math.max(parseFloat(holder.style.minHeight) || 0, holder.offsetHeight)}px`;
    if (shown !== null) read(shown);
    if (shown === null) readout.textContent = hint(layout);
    caption.textContent = model.get("caption");
    problem.textContent = model.get("problem");
    root.setAttribute("aria-label", model.get("caption"));
    fillTable();
    nameSliders(root);
    root.drawn = layout.map((panel, index) => ({
      title: panel.title,
      kind: panel.kind,
      rows: panel.rows,
      columns: panel.columns,
      values: values[index],
      rowLabels: panel.row_labels,
      columnLabels: panel.column_labels,
      palette: panel.palette,
      low: panel.low,
      high: panel.high,
      cell: parts.cell[index],
      origin: parts[index].origin,
    }));
    root.dataset.frame = Number(root.dataset.frame || 0) + 1;
  }

  let waiting = false;
  function schedule() {
    // Python sends several traits at once: draw them together, once per screen refresh.
    if (waiting) return;
    waiting = true;
    requestAnimationFrame(() => {
      waiting = false;
      update();
    });
  }

  let face = null;
  async function loadFont() {
    const bytes = model.get("font");
    if (face) document.fonts.delete(face);
    face = null;
    if (bytes.byteLength === 0) return;
    face = new FontFace(family, bytes.buffer.slice(bytes.byteOffset, bytes.byteOffset + bytes.byteLength));
    document.fonts.add(face);
    await face.load();
    schedule();
  }

  const traits = ["values", "panel_layout", "caption", "problem", "palettes"];
  for (const trait of traits) model.on(`change:${trait}`, schedule);
  const themes = new MutationObserver(schedule);
  themes.observe(document.body, { attributes: true, attributeFilter: ["data-jp-theme-light", "data-jp-theme-name", "class"] });
  const system = window.matchMedia("(prefers-color-scheme: dark)");
  system.addEventListener("change", schedule);
  const room = new ResizeObserver(schedule); // bars are as long as the page has room for
  room.observe(holder);
  model.on("change:font", loadFont);
  root.style.setProperty("--attention-token-font", family);
  loadFont();
  schedule();

  return () => {
    model.off("change:font", loadFont);
    if (face) document.fonts.delete(face);
    for (const trait of traits) model.off(`change:${trait}`, schedule);
    themes.disconnect();
    room.disconnect();
    system.removeEventListener("change", schedule);
  };
}

export default { render };
