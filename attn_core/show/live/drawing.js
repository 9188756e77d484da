// How maps, lines and bars are drawn. A context is that of a canvas, or a stand-in that writes SVG; `look` has the colours,
// `selected` is a row and a column or null.

function drawMap(context, panel, look, selected) {
  const [left, top] = panel.origin;
  const [cellWidth, cellHeight] = panel.cell;
  const palette = look.palettes[panel.palette];
  const line = Math.min(cellWidth, cellHeight) > 6 ? 1 : 0; // between cells, where there is room
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
      if (panel.numbers.length) {
        context.fillStyle = isDark(colour) ? STYLE.LIGHT_TEXT : STYLE.DARK_TEXT;
        context.fillText(panel.numbers[i * panel.columns + j], x + cellWidth / 2, y + cellHeight / 2);
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
  context.fillText(`${panel.columnName} →`, left, 8);
  context.save();
  context.translate(8, top + panel.rows * cellHeight);
  context.rotate(-Math.PI / 2);
  context.fillText(`← ${panel.rowName}`, 0, 0);
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
    { texts: panel.rowTexts, name: panel.rowName, align: "right", x: left - GAP, box: [1, left - 3] },
    { texts: panel.columnTexts, name: panel.columnName, align: "left", x: left + width + GAP, box: [left + width + 2] },
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
    context.fillText(panel.rowTexts[i], left - GAP, y + BAR.row / 2);
    context.textAlign = "left";
    context.fillText(panel.barTexts[i], left + bar + GAP, y + BAR.row / 2);
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
