// The live view: panels on canvases under pointer and keys, and buttons that save them. All values come from Python;
// nothing here computes attention. What draws stands in drawing.js.

function element(name, className, parent) {
  const node = document.createElement(name);
  node.className = className;
  parent.append(node);
  return node;
}

function download(parent, blob, name) {
  const link = element("a", "", parent);
  link.href = URL.createObjectURL(blob);
  link.download = name;
  link.hidden = true;
  link.click();
  link.remove();
  setTimeout(() => URL.revokeObjectURL(link.href), 1000); // by then the browser has begun to save it
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

let families = 0;

function render({ model, el }) {
  const family = `attention-tokens-${++families}`; // glyphs that the reader's system may lack
  const font = `400 ${STYLE.VIEW_SIZE}px ${family}, sans-serif`;
  const titleFont = `600 ${STYLE.VIEW_TITLE_SIZE}px ${family}, sans-serif`;
  const ruler = document.createElement("canvas").getContext("2d");
  const root = element("div", "attention-view", el);
  root.setAttribute("role", "group");
  const holder = element("div", "panels", root);
  const readout = element("p", "readout", root);
  readout.setAttribute("aria-live", "polite");
  const caption = element("p", "caption", root);
  const problem = element("p", "problem", root);
  problem.setAttribute("role", "alert");
  const { colours, numbers, page } = makeTools();
  let panels = []; // what is drawn: the layout with values and places
  let parts = []; // one per panel: {figure, canvas, title, selected: [row, column] or null}
  let tokens = []; // of the first panel at the last update
  let theme = {}; // of the page, as the colour of its text tells
  let shown = null; // index of the panel that the readout speaks of

  function makeTools() {
    const tools = element("div", "tools", root);
    const choice = element("label", "", tools);
    choice.textContent = "Colours ";
    const colours = element("select", "", choice);
    for (const name of Object.keys(STYLE.CHOICES)) element("option", "", colours).textContent = name;
    colours.addEventListener("change", schedule);
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
      button.addEventListener("click", () => saveAs(kind));
    }
    const numbers = element("details", "numbers", root);
    element("summary", "", numbers).textContent = "Numbers as a table";
    const page = element("div", "sheet", numbers);
    page.tabIndex = 0; // wide tables scroll, by keyboard as well
    page.setAttribute("role", "region");
    numbers.addEventListener("toggle", fillTable);
    // Else JupyterLab would take letters and Enter for commands on the cell.
    const keep = (event) => event.ctrlKey || event.metaKey || event.stopPropagation();
    for (const part of [tools, numbers]) part.addEventListener("keydown", keep);
    return { colours, numbers, page };
  }

  function fillTable() {
    page.replaceChildren(); // a closed one stays empty, so that sliders stay fast
    const panel = panels[shown || 0];
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
        const value = panel.values[row * panel.columns + column];
        element("td", "", line).textContent = panel.texts[row] ?? spoken(value, panel.unit);
      });
    });
  }

  function look() {
    const ink = getComputedStyle(root).color;
    if (ink !== theme.ink) theme = { ink, name: isDark(blended("#808080", ink)) ? "light" : "dark" };
    return { ink, accent: STYLE.CHOICES[colours.value][theme.name], palettes: model.get("palettes") };
  }

  // Where things stand on a picture of the whole view: as on the page, with the caption below.
  function compose() {
    const margin = 12;
    ruler.font = titleFont;
    const places = parts.map(({ figure, canvas, title }) => ({
      x: figure.offsetLeft - holder.offsetLeft + margin,
      y: figure.offsetTop - holder.offsetTop + margin,
      below: canvas.offsetTop - figure.offsetTop, // the title
      width: figure.offsetWidth,
      lines: wrapped(title.textContent, figure.offsetWidth + 1, ruler),
    }));
    const width = Math.max(420, ...places.map(({ x, width }, i) => x + Math.max(width, panels[i].size[0]))) + margin;
    const bottom = Math.max(...places.map(({ y, below }, i) => y + below + panels[i].size[1])) + margin;
    ruler.font = font;
    const lines = wrapped(model.get("caption"), width - 2 * margin, ruler);
    return { places, lines, margin, bottom, size: [Math.ceil(width), Math.ceil(bottom + 17 * lines.length + margin)] };
  }

  function paint(context, { places, lines, margin, bottom, size }) {
    const { paper, ink } = themeColours();
    const write = (text, x, y) => {
      context.textAlign = "left";
      context.fillStyle = ink;
      context.fillText(text, x, y);
    };
    context.textBaseline = "middle";
    context.fillStyle = paper;
    context.fillRect(0, 0, ...size);
    places.forEach((place, i) => {
      const panel = panels[i];
      context.font = titleFont;
      place.lines.forEach((line, k) => write(line, place.x, place.y + 8 + 16 * k));
      context.font = font;
      context.save();
      context.translate(place.x, place.y + place.below);
      // What the pointer happened to touch is not part of the picture; the query whose lines stand out is.
      const selected = panel.kind === "lines" ? parts[i].selected : null;
      DRAW[panel.kind](context, panel, { ...look(), ink }, selected);
      context.restore();
    });
    lines.forEach((line, k) => write(line, margin, bottom + 8 + 17 * k));
  }

  // Opaque ones. The paper is what lies behind the view, or fits its text where nothing does.
  function themeColours() {
    const behind = [];
    for (let node = root; node; node = node.parentElement) behind.unshift(getComputedStyle(node).backgroundColor);
    const paper = blended("#ffffff", ...behind);
    const ink = blended(paper, getComputedStyle(root).color);
    if (isDark(paper) !== isDark(ink)) return { paper, ink };
    return { paper: isDark(ink) ? "#ffffff" : "#111111", ink };
  }

  function saveAs(kind) {
    const about = model.get("name") || model.get("caption") || panels[0].title;
    const words = about.toLowerCase().match(/[\p{L}\p{N}]+/gu) || ["attention"];
    const name = `${words.join("-").slice(0, 60)}.${kind.toLowerCase()}`;
    if (kind === "CSV") return download(root, new Blob([csv(panels)], { type: "text/csv" }), name);
    const picture = compose();
    const [width, height] = picture.size;
    if (kind === "SVG") {
      const context = svgContext(width, height);
      context.add("title", {}, model.get("caption"));
      context.add("style", {}, fontRule());
      paint(context, picture);
      const text = new XMLSerializer().serializeToString(context.element);
      return download(root, new Blob([text], { type: "image/svg+xml" }), name);
    }
    const canvas = document.createElement("canvas");
    [canvas.width, canvas.height] = [2 * width, 2 * height];
    const context = canvas.getContext("2d");
    context.scale(2, 2);
    paint(context, picture);
    canvas.toBlob((blob) => download(root, blob, name), "image/png");
  }

  // The glyphs that the reader's system may lack go into the file.
  function fontRule() {
    const bytes = fontBytes();
    if (!bytes.length) return "";
    const text = btoa(Array.from(bytes, (byte) => String.fromCharCode(byte)).join(""));
    return `@font-face{font-family:"${family}";src:url("data:font/otf;base64,${text}")}`;
  }

  function read(index) {
    const selected = parts[index].selected;
    if (!selected) return;
    const panel = panels[index];
    const [row, column] = selected;
    shown = index;
    if (panel.kind === "bars") {
      readout.textContent = `${panel.title}: ${panel.row_labels[row]}: ${panel.texts[row]}`;
      return;
    }
    readout.textContent =
      `${panel.title}: ${panel.row_name} ${panel.row_labels[row]} → ` +
      `${panel.column_name} ${panel.column_labels[column]}: ` +
      `${panel.unit} ${spoken(panel.values[row * panel.columns + column], panel.unit)}`;
  }

  function select(index, row, column) {
    const clamp = (x, top) => Math.min(Math.max(x, 0), top - 1);
    for (const part of parts) part.selected = null;
    parts[index].selected = [clamp(row, panels[index].rows), clamp(column, panels[index].columns)];
    read(index);
    schedule();
  }

  // Where the maps are wider than the page, the column of the selected cell comes into sight.
  function reveal(index) {
    const { origin, cell, size } = panels[index];
    const [box, canvas] = [holder, parts[index].canvas].map((node) => node.getBoundingClientRect());
    const scale = canvas.width / size[0]; // not 1 on a slide
    const left = (canvas.left - box.left) / scale + origin[0] + parts[index].selected[1] * cell[0];
    if (left < 0) holder.scrollLeft += left;
    if (left + cell[0] > holder.clientWidth) holder.scrollLeft += left + cell[0] - holder.clientWidth;
  }

  function letGo() {
    for (const part of parts) part.selected = null;
    shown = null;
    schedule();
  }

  // The strongest key of a query, or the query that looks most at a key.
  function strongest({ values, rows, columns }, row, column) {
    const line = row === null ? Array.from({ length: rows }, (_, i) => i * columns + column) : null;
    const places = line || Array.from({ length: columns }, (_, j) => row * columns + j);
    return places.reduce((best, place, i) => (values[place] > values[places[best]] ? i : best), 0);
  }

  function makePanel(index) {
    const figure = element("figure", "panel", holder);
    const title = element("figcaption", "", figure);
    const canvas = element("canvas", "", figure);
    canvas.tabIndex = 0;
    canvas.setAttribute("role", "img");
    const pointed = (event) => {
      const box = canvas.getBoundingClientRect();
      const panel = panels[index];
      const scale = panel.size[0] / box.width; // not 1 on a slide, which is fitted to the screen
      const x = (event.clientX - box.left) * scale - panel.origin[0];
      const y = (event.clientY - box.top) * scale - panel.origin[1];
      const row = Math.floor(y / panel.cell[1]);
      const column = panel.kind === "lines" ? row : Math.floor(x / panel.cell[0]);
      if (panel.kind === "lines") {
        const onQueries = x < panel.cell[0] / 2;
        if (onQueries && row >= 0 && row < panel.rows) select(index, row, strongest(panel, row, null));
        if (onQueries || column < 0 || column >= panel.columns) return;
        select(index, parts[index].selected?.[0] ?? strongest(panel, null, column), column);
        return;
      }
      if (row >= 0 && column >= 0 && row < panel.rows && column < panel.columns) select(index, row, column);
    };
    canvas.addEventListener("pointermove", pointed);
    canvas.addEventListener("pointerdown", pointed);
    canvas.addEventListener("pointerleave", () => {
      if (panels[index].kind === "lines" && document.activeElement !== canvas) letGo();
    });
    canvas.addEventListener("focus", () => {
      if (!parts[index].selected) select(index, 0, panels[index].kind === "lines" ? strongest(panels[index], 0, null) : 0);
    });
    canvas.addEventListener("keydown", (event) => {
      const moves = { ArrowUp: [-1, 0], ArrowDown: [1, 0], ArrowLeft: [0, -1], ArrowRight: [0, 1] };
      const move = moves[event.key];
      if (!move && event.key !== "Escape") return;
      event.preventDefault();
      event.stopPropagation();
      if (!move) return letGo();
      const [row, column] = parts[index].selected || [0, 0];
      select(index, row + move[0], column + move[1]);
      if (panels[index].kind === "map") reveal(index);
    });
    return { figure, canvas, title, selected: null };
  }

  function decoded(panel) {
    const bytes = model.get("values");
    const at = (_, i) => bytes.getFloat32(4 * (panel.offset + i), true);
    return Float32Array.from({ length: panel.rows * panel.columns }, at);
  }

  function draw(panel, { canvas, selected }, colours) {
    const context = canvas.getContext("2d");
    const ratio = window.devicePixelRatio || 1;
    const [width, height] = panel.size;
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
    DRAW[panel.kind](context, panel, colours, selected);
  }

  function update() {
    const layout = model.get("panel_layout");
    if (parts.length !== layout.length) {
      holder.replaceChildren();
      parts = layout.map((_, index) => makePanel(index));
      shown = null;
    }
    ruler.font = font;
    const replaced = STYLE.CHOICES[colours.value].palettes;
    panels = arrange(layout, ruler, holder.clientWidth).map((panel) => ({
      ...panel,
      values: decoded(panel),
      palette: replaced[panel.palette] || panel.palette,
    }));
    const inUse = look();
    panels.forEach((panel, index) => {
      const part = parts[index];
      part.title.textContent = panel.title;
      part.canvas.setAttribute("aria-label", label(panel));
      const { selected } = part;
      if (selected && (selected[0] >= panel.rows || selected[1] >= panel.columns)) {
        part.selected = null;
        if (shown === index) shown = null;
      }
      draw(panel, part, inUse);
    });
    // Room once taken is kept, so that the page below does not jump while a slider moves; other tokens begin anew.
    const names = layout[0].row_labels;
    if (names.some((name, i) => i < tokens.length && name !== tokens[i])) holder.style.minHeight = "0";
    tokens = names;
    holder.style.minHeight = `${Math.max(parseFloat(holder.style.minHeight) || 0, holder.offsetHeight)}px`;
    if (shown !== null) read(shown);
    if (shown === null) readout.textContent = hint(layout);
    caption.textContent = model.get("caption");
    problem.textContent = model.get("problem");
    root.setAttribute("aria-label", model.get("caption"));
    // The controls of an explorer show tokens as well.
    (root.closest(".widget-vbox, .explorer") || root).style.setProperty("--attention-token-font", family);
    fillTable();
    nameSliders(root);
    // Options that arrive later write the number again.
    const box = root.closest(".widget-vbox");
    if (box) renamed.observe(box, { subtree: true, attributeFilter: ["aria-valuetext"] });
    root.drawn = panels.map((panel) => ({
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
    root.dataset.frame = Number(root.dataset.frame || 0) + 1;
  }

  let waiting = false;
  function drawOnce(when) {
    if (waiting) return;
    waiting = true;
    when(() => {
      waiting = false;
      update();
    });
  }
  function schedule() {
    drawOnce(requestAnimationFrame);
  }
  function changed() {
    // Python sends several traits at once: they are drawn together, and still in the frame that comes next.
    drawOnce(queueMicrotask);
  }

  function fontBytes() {
    const bytes = model.get("font");
    return new Uint8Array(bytes.buffer, bytes.byteOffset, bytes.byteLength);
  }

  let face = null;
  async function loadFont() {
    if (face) document.fonts.delete(face);
    face = null;
    const bytes = fontBytes().slice();
    if (bytes.length === 0) return;
    face = new FontFace(family, bytes);
    document.fonts.add(face);
    await face.load();
    schedule();
  }

  const traits = ["values", "panel_layout", "caption", "problem", "palettes"];
  for (const trait of traits) model.on(`change:${trait}`, changed);
  const renamed = new MutationObserver(() => nameSliders(root));
  const themes = new MutationObserver(schedule);
  themes.observe(document.body, { attributes: true, attributeFilter: ["data-jp-theme-light", "data-jp-theme-name", "class"] });
  const system = window.matchMedia("(prefers-color-scheme: dark)");
  system.addEventListener("change", schedule);
  const room = new ResizeObserver(schedule); // bars are as long as the page has room for
  room.observe(holder);
  model.on("change:font", loadFont);
  loadFont();
  schedule();

  return () => {
    model.off("change:font", loadFont);
    if (face) document.fonts.delete(face);
    for (const trait of traits) model.off(`change:${trait}`, changed);
    renamed.disconnect();
    themes.disconnect();
    room.disconnect();
    system.removeEventListener("change", schedule);
  };
}
