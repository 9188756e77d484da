// How maps, lines and bars are drawn, and what is written into files.
// In order: settings, texts, colours, places, drawing, files.

const GAP = 6;
const BAR = { most: 260, least: 60, row: 26 }; // pixels
const SVG = "http://www.w3.org/2000/svg"; // the name of a language, not a place to load from

// Texts

const HINTS = {
  map: "Point at a cell, or focus a map and use the arrow keys.",
  lines: "Point at a token, or focus the lines and use the arrow keys. A click keeps it, Escape lets it go.",
  bars: "Point at a bar, or focus a group of bars and use the arrow keys.",
};

function hint(layout) {
  const kinds = new Set(layout.map((panel) => panel.kind));
  return kinds.size === 1 ? HINTS[layout[0].kind] : "Point at a picture, or focus it and use the arrow keys.";
}

function label(panel) {
  if (panel.kind === "bars") {
    const bars = panel.row_labels.map((name, row) => `${name}: ${panel.texts[row]}`);
    return `${panel.title}: ${bars.join("; ")}. Arrow keys read the bars.`;
  }
  if (panel.kind === "lines") {
    return (
      `${panel.title}: lines from ${panel.rows} tokens (${panel.row_name}) to ${panel.columns} tokens ` +
      `(${panel.column_name}). Arrow keys up and down choose the ${panel.row_name}, left and right the ${panel.column_name}.`
    );
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

function shortened(text) {
  const letters = Array.from(text);
  return letters.length > STYLE.LABEL_LETTERS ? `${letters.slice(0, STYLE.LABEL_LETTERS - 1).join("")}…` : text;
}

function wrapped(text, width, ruler) {
  const lines = [];
  for (const paragraph of text.split("\n")) {
    let line = "";
    for (const piece of paragraph.match(/[\u2e80-\u9fff\uff00-\uffef]|[^\s\u2e80-\u9fff\uff00-\uffef]+|\s+/g) || []) {
      if (line && ruler.measureText((line + piece).trimEnd()).width > width) {
        lines.push(line.trimEnd());
        line = piece.trimStart();
      } else line += piece;
    }
    lines.push(line.trimEnd());
  }
  return lines;
}

// Colours

function isDark(colour) {
  const [r, g, b] = [1, 3, 5].map((i) => parseInt(colour.slice(i, i + 2), 16));
  return 0.2126 * r + 0.7152 * g + 0.0722 * b < 128;
}

// One opaque #rrggbb from colours that lie above one another, the lowest first.
function blended(...colours) {
  const context = Object.assign(document.createElement("canvas"), { width: 1, height: 1 }).getContext("2d");
  for (const colour of colours) {
    context.fillStyle = colour;
    context.fillRect(0, 0, 1, 1);
  }
  const channels = Array.from(context.getImageData(0, 0, 1, 1).data.slice(0, 3));
  return `#${channels.map((channel) => channel.toString(16).padStart(2, "0")).join("")}`;
}

// Places, in pixels from the upper left corner of a panel. `origin` is where the cells begin and `cell` the size of one;
// lines run from origin[0] over a width of cell[0], with cell[1] from token to token; of bars a row is a cell.

function arrange(layout, ruler, room) {
  // Whole pixels: else seams show between small cells.
  const widest = (texts) => Math.ceil(Math.max(...texts.map((text) => ruler.measureText(text).width)));
  const bars = layout.filter((panel) => panel.kind === "bars");
  return layout.map((panel) => {
    if (panel.kind === "bars") return { ...panel, ...placeBars(panel, bars, widest, room) };
    const named = {
      ...panel,
      rowTexts: panel.row_labels.map(shortened),
      columnTexts: panel.column_labels.map(shortened),
    };
    const place = panel.kind === "lines" ? placeLines : placeMap;
    return { ...named, ...place(named, layout.length > 1, widest) };
  });
}

function placeMap(panel, several, widest) {
  const longest = Math.max(panel.rows, panel.columns);
  let side = Math.max(3, Math.floor((several ? 190 : 420) / longest));
  if (longest <= STYLE.NUMBERS_UP_TO) side = longest <= 4 ? 46 : 40;
  const [width, height] = panel.stretch.map((factor) => Math.floor(side * factor));
  const columnWidth = widest(panel.columnTexts);
  const slanted = columnWidth > width - 2;
  const left = widest(panel.rowTexts) + 2 * GAP + 14;
  const top = (slanted ? columnWidth : 12) + 2 * GAP + 14;
  const size = [left + panel.columns * width + 2, top + panel.rows * height + 2];
  return { cell: [width, height], origin: [left, top], size, slanted };
}

function placeLines(panel, several, widest) {
  const longest = Math.max(panel.rows, panel.columns);
  const height = Math.min(22, Math.max(6, Math.floor(530 / longest)));
  const width = several ? 120 : 240;
  const left = Math.max(widest(panel.rowTexts), widest([panel.row_name])) + 2 * GAP;
  const right = Math.max(widest(panel.columnTexts), widest([panel.column_name])) + 2 * GAP;
  return { cell: [width, height], origin: [left, 22], size: [left + width + right, 22 + longest * height + 2] };
}

function placeBars(panel, bars, widest, room) {
  // As wide in every panel: bars that stand below one another begin and end together.
  const left = widest(bars.flatMap((other) => other.row_labels)) + 2 * GAP;
  const right = widest(bars.flatMap((other) => other.texts)) + 3 * GAP;
  const bar = Math.min(Math.max(room - left - right, BAR.least), BAR.most);
  const width = left + bar + right; // label and text can be pointed at as well
  return { cell: [width, BAR.row], origin: [0, 0], size: [width, panel.rows * BAR.row], left, bar };
}

// Drawing. A context is that of a canvas, or a stand-in that writes SVG; `look` has the colours, `selected` is a row and
// a column or null.

function drawMap(context, panel, look, selected) {
  const [left, top] = panel.origin;
  const [cellWidth, cellHeight] = panel.cell;
  const palette = look.palettes[panel.palette];
  const line = Math.min(cellWidth, cellHeight) > 6 ? 1 : 0; // between cells, where there is room
  const numbers = Math.max(panel.rows, panel.columns) <= STYLE.NUMBERS_UP_TO;
  context.textAlign = "center";
  for (let i = 0; i < panel.rows; i++) {
    for (let j = 0; j < panel.columns; j++) {
      const value = panel.values[i * panel.columns + j];
      const level = Math.round((255 * (value - panel.low)) / (panel.high - panel.low));
      const colour = Number.isFinite(value) ? palette[Math.min(Math.max(level, 0), 255)] : STYLE.HIDDEN;
      const x = left + j * cellWidth;
      const y = top + i * cellHeight;
      context.fillStyle = colour;
      context.fillRect(x, y, cellWidth - line, cellHeight - line);
      if (numbers) {
        context.fillStyle = isDark(colour) ? STYLE.LIGHT_TEXT : STYLE.DARK_TEXT;
        context.fillText(written(value), x + cellWidth / 2, y + cellHeight / 2);
      } else if (!Number.isFinite(value)) {
        context.strokeStyle = STYLE.DARK_TEXT; // crossed out: a cell of the grey palette may have this colour too
        context.lineWidth = 1;
        stroke(context, x, y + cellHeight - line, x + cellWidth - line, y);
      }
    }
  }
  context.fillStyle = context.strokeStyle = look.ink;
  context.globalAlpha = 0.4; // an outline: the lightest and the darkest cells may have the colour of the page
  context.lineWidth = 1;
  context.strokeRect(left - 0.5, top - 0.5, panel.columns * cellWidth + 1 - line, panel.rows * cellHeight + 1 - line);
  context.globalAlpha = 1;
  context.textAlign = "right";
  for (let i = 0; i < panel.rows; i += every(cellHeight)) {
    context.fillText(panel.rowTexts[i], left - GAP, top + (i + 0.5) * cellHeight);
  }
  for (let j = 0; j < panel.columns; j += every(cellWidth)) {
    context.save();
    context.translate(left + (j + 0.5) * cellWidth, top - GAP);
    context.textAlign = panel.slanted ? "left" : "center";
    if (panel.slanted) context.rotate(-Math.PI / 2);
    else context.translate(0, -6);
    context.fillText(panel.columnTexts[j], 0, 0);
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
  if (!selected) return;
  const [x, y] = [left + selected[1] * cellWidth, top + selected[0] * cellHeight];
  for (const [width, colour] of [[4, STYLE.DARK_TEXT], [2, STYLE.LIGHT_TEXT]]) { // one of them stands out from any cell
    context.lineWidth = width;
    context.strokeStyle = colour;
    context.strokeRect(x, y, cellWidth - 1, cellHeight - 1);
  }
}

function drawLines(context, panel, look, selected) {
  const [left, top] = panel.origin;
  const [width, height] = panel.cell;
  const middle = (place) => top + (place + 0.5) * height;
  const drawFrom = (row, opacity) => {
    for (let j = 0; j < panel.columns; j++) {
      const weight = Math.min(panel.values[row * panel.columns + j], 1);
      if (weight < STYLE.FAINTEST || opacity(weight) < STYLE.FAINTEST) continue;
      context.globalAlpha = opacity(weight);
      context.lineWidth = 1 + 2 * weight;
      stroke(context, left, middle(row), left + width, middle(j));
    }
  };
  context.strokeStyle = look.accent;
  for (let i = 0; i < panel.rows; i++) {
    if (!selected || i !== selected[0]) drawFrom(i, (weight) => (selected ? weight / 6 : weight));
  }
  if (selected) drawFrom(selected[0], (weight) => 0.25 + 0.75 * weight);
  context.globalAlpha = 1;
  context.fillStyle = context.strokeStyle = look.ink;
  const columns = [
    { texts: panel.rowTexts, name: panel.row_name, align: "right", x: left - GAP, box: [1, left - 3] },
    { texts: panel.columnTexts, name: panel.column_name, align: "left", x: left + width + GAP, box: [left + width + 2] },
  ];
  columns[1].box.push(panel.size[0] - columns[1].box[0] - 1);
  columns.forEach(({ texts, name, align, x, box }, side) => {
    context.textAlign = align;
    for (let i = 0; i < texts.length; i += every(height)) context.fillText(texts[i], x, middle(i));
    context.globalAlpha = 0.75;
    context.fillText(name, x, 10);
    context.globalAlpha = 1;
    if (!selected) return;
    context.lineWidth = 2;
    context.strokeRect(box[0], top + selected[side] * height, box[1], height);
  });
}

function drawBars(context, panel, look, selected) {
  const { left, bar } = panel;
  for (let i = 0; i < panel.rows; i++) {
    const y = i * BAR.row;
    context.fillStyle = look.accent;
    context.fillRect(left, y + 4, (bar * panel.values[i]) / panel.high, BAR.row - 8);
    context.strokeStyle = context.fillStyle = look.ink;
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
    context.strokeRect(1, y + 1, panel.size[0] - 2, BAR.row - 2);
  }
}

const DRAW = { map: drawMap, lines: drawLines, bars: drawBars };

function stroke(context, x1, y1, x2, y2) {
  context.beginPath();
  context.moveTo(x1, y1);
  context.lineTo(x2, y2);
  context.stroke();
}

function every(size) {
  return Math.max(1, Math.ceil(13 / size)); // the labels that fit
}

// Files

// As much of a canvas's context as the drawing above uses; each call adds an element. `element` is the picture.
function svgContext(width, height) {
  const root = document.createElementNS(SVG, "svg");
  let group = root;
  const add = (name, attributes, text = "") => {
    const node = document.createElementNS(SVG, name);
    for (const [key, value] of Object.entries(attributes)) {
      node.setAttribute(key, typeof value === "number" ? String(Math.round(value * 1000) / 1000) : value);
    }
    // Characters that no XML may hold.
    node.textContent = text.replace(/[^\t\n\r -\ud7ff\ue000-\ufffd\u{10000}-\u{10ffff}]/gu, "\ufffd");
    return group.appendChild(node);
  };
  Object.entries({ width, height, viewBox: `0 0 ${width} ${height}`, "xml:space": "preserve" }).forEach((pair) =>
    root.setAttribute(...pair),
  );
  const seen = (paint, colour) => ({ [paint]: colour, ...(context.globalAlpha < 1 && { opacity: context.globalAlpha }) });
  const lined = () => ({ ...seen("stroke", context.strokeStyle), "stroke-width": context.lineWidth, fill: "none" });
  const kept = [];
  let path = [];
  const context = {
    element: root,
    add,
    globalAlpha: 1,
    save: () => kept.push([group, { ...context }]),
    restore() {
      const [outer, { fillStyle, strokeStyle, lineWidth, globalAlpha, textAlign, font }] = kept.pop();
      group = outer;
      Object.assign(context, { fillStyle, strokeStyle, lineWidth, globalAlpha, textAlign, font });
    },
    translate: (x, y) => (group = add("g", { transform: `translate(${x} ${y})` })),
    rotate: (angle) => (group = add("g", { transform: `rotate(${(angle * 180) / Math.PI})` })),
    fillRect: (x, y, width, height) => add("rect", { x, y, width, height, ...seen("fill", context.fillStyle) }),
    strokeRect: (x, y, width, height) => add("rect", { x, y, width, height, ...lined() }),
    beginPath: () => (path = []),
    moveTo: (x, y) => path.push(x, y),
    lineTo: (x, y) => path.push(x, y),
    stroke: () => add("line", { x1: path[0], y1: path[1], x2: path[2], y2: path[3], ...lined() }),
    fillText(text, x, y) {
      const [, weight, size, family] = /^(\w+) (\d+)px (.*)$/.exec(context.font);
      const anchor = { left: "start", center: "middle", right: "end" }[context.textAlign];
      const font = { "font-family": family, "font-size": Number(size), "font-weight": weight };
      add("text", { x, y, dy: "0.35em", "text-anchor": anchor, ...font, ...seen("fill", context.fillStyle) }, text);
    },
  };
  return context;
}

// One line for each number. Spreadsheets would run a label such as =1+1 as a formula: an apostrophe makes it a text.
function csv(panels) {
  const field = (text) => {
    const safe = /^\s*[=+\-@＝＋－＠]/.test(text) ? `'${text}` : text;
    return /[",\r\n]/.test(safe) ? `"${safe.replaceAll('"', '""')}"` : safe;
  };
  const lines = ["panel,row,column,value"];
  for (const panel of panels) {
    panel.values.forEach((value, i) => {
      const [row, column] = [Math.floor(i / panel.columns), i % panel.columns];
      const names = [panel.title, panel.row_labels[row], panel.column_labels[column]];
      lines.push([...names.map(field), exact(value)].join());
    });
  }
  return `\ufeff${lines.join("\r\n")}\r\n`; // with the mark that tells spreadsheets that it is UTF-8
}

// The shortest decimal that is read back as the same float32.
function exact(value) {
  if (!Number.isFinite(value)) return String(value).replace("Infinity", "inf").toLowerCase();
  if (Number.isInteger(value)) return String(value);
  let digits = 1;
  while (Math.fround(Number(value.toPrecision(digits))) !== value) digits++;
  return String(Number(value.toPrecision(digits)));
}
