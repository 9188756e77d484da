// Where things stand, in pixels from the upper left corner of a panel. `origin` is where the cells begin and `cell` the
// size of one; lines run from origin[0] over a width of cell[0], with cell[1] from token to token; of bars a row is a cell.

const GAP = 6;
const BAR = { most: 260, least: 60, row: 26 };

function arrange(layout, ruler, room) {
  // Whole pixels: else seams show between small cells.
  const widest = (texts) => Math.ceil(Math.max(...texts.map((text) => ruler.measureText(text).width)));
  const named = layout.map((panel) => {
    const short = (text) => shortened(text, panel.kind === "bars" ? STYLE.BAR_LETTERS : STYLE.LABEL_LETTERS);
    const [rowTexts, columnTexts, barTexts] = [panel.row_labels, panel.column_labels, panel.texts].map((texts) => texts.map(short));
    return { ...panel, rowTexts, columnTexts, barTexts, rowName: short(panel.row_name), columnName: short(panel.column_name) };
  });
  const bars = named.filter((panel) => panel.kind === "bars");
  return named.map((panel) => {
    if (panel.kind === "bars") return { ...panel, ...placeBars(panel, bars, widest, room) };
    const place = panel.kind === "lines" ? placeLines : placeMap;
    return { ...panel, ...place(panel, layout.length > 1, widest) };
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
  const names = [`${panel.columnName} →`, `← ${panel.rowName}`].map((name) => widest([name]));
  const top = Math.max((slanted ? columnWidth : 12) + 2 * GAP + 14, names[1] - panel.rows * height);
  const size = [left + Math.max(panel.columns * width, names[0]) + 2, top + panel.rows * height + 2];
  const texts = longest > STYLE.NUMBERS_UP_TO ? [] : Array.from(panel.values, (value) => number(value));
  const numbers = texts.map((text) => (widest([text]) < width ? text : "")); // else it would stand on its neighbours
  return { cell: [width, height], origin: [left, top], size, slanted, numbers };
}

function placeLines(panel, several, widest) {
  const longest = Math.max(panel.rows, panel.columns);
  const height = Math.min(22, Math.max(6, Math.floor(530 / longest)));
  const width = several ? 120 : 240;
  const left = Math.max(widest(panel.rowTexts), widest([panel.rowName])) + 2 * GAP;
  const right = Math.max(widest(panel.columnTexts), widest([panel.columnName])) + 2 * GAP;
  return { cell: [width, height], origin: [left, 22], size: [left + width + right, 22 + longest * height + 2] };
}

function placeBars(panel, bars, widest, room) {
  // As wide in every panel: bars that stand below one another begin and end together.
  const left = widest(bars.flatMap((other) => other.rowTexts)) + 2 * GAP;
  const right = widest(bars.flatMap((other) => other.barTexts)) + 3 * GAP;
  const bar = Math.min(Math.max(room - left - right, BAR.least), BAR.most);
  const width = left + bar + right; // label and text can be pointed at as well
  return { cell: [width, BAR.row], origin: [0, 0], size: [width, panel.rows * BAR.row], left, bar };
}
