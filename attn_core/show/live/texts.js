// Numbers, captions and what the view says: number, filled and their forms are those of texts.py, which explains them.

const MINUS = "−";

function number(value, form = ".2f") {
  if (Number.isNaN(value)) return "nan";
  if (value === Infinity || value === -Infinity) return value < 0 ? `${MINUS}∞` : "∞";
  const [, grouped, decimals] = /^(,?)(?:\.(\d)f)?$/.exec(form === "short" ? ".4f" : form);
  // Whole numbers past 2⁵³ come as texts, so that none of their digits is lost.
  let text = decimals === undefined ? String(BigInt(value)) : fixed(value, Number(decimals));
  if (form === "short") text = text.replace(/\.?0*$/, "");
  const [whole, fraction] = text.replace("-", "").split(".");
  const sign = text.startsWith("-") && /[1-9]/.test(text) ? MINUS : "";
  const groups = grouped ? whole.replace(/\B(?=(\d{3})+$)/g, ",") : whole;
  return sign + groups + (fraction === undefined ? "" : `.${fraction}`);
}

// As toFixed, but what lies exactly between two goes to the even one, and large numbers keep their digits.
function fixed(value, decimals) {
  if (Math.abs(value) >= 2 ** 53) return `${BigInt(value)}.${"0".repeat(decimals)}`;
  const text = value.toFixed(decimals);
  // Between two lie those that have one binary digit more than decimals; of them toFixed takes the greater.
  const between = Math.abs(value * 2 ** (decimals + 1)) % 2 === 1;
  return between && Number(text.at(-1)) % 2 ? text.slice(0, -1) + (Number(text.at(-1)) - 1) : text;
}

function filled(caption) {
  if (typeof caption === "string") return caption;
  return caption.template.replace(/\{(\w+)(?::([^{}]*))?\}/g, (_, name, form) => {
    const value = caption.values[name];
    if (form?.includes("|")) return form.split("|")[value === 1 ? 0 : 1];
    if (form !== undefined) return number(value, form);
    return typeof value === "number" ? number(value, "") : filled(value);
  });
}

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
  if (unit === "bucket") return number(value, ",");
  return Number.isFinite(value) ? number(value, ".4f") : "hidden by the mask";
}

// What the readout says of a cell or a bar.
function reading(panel, row, column) {
  if (panel.kind === "bars") return `${panel.title}: ${panel.row_labels[row]}: ${panel.texts[row]}`;
  return (
    `${panel.title}: ${panel.row_name} ${panel.row_labels[row]} → ` +
    `${panel.column_name} ${panel.column_labels[column]}: ` +
    `${panel.unit} ${spoken(panel.values[row * panel.columns + column], panel.unit)}`
  );
}

// What is too much for a label goes from its middle.
function shortened(text, most) {
  const line = text.replaceAll("\n", "↵");
  const letters = Array.from(line);
  const end = Math.floor((most - 1) / 2);
  return letters.length <= most ? line : `${letters.slice(0, most - 1 - end).join("")}…${letters.slice(-end).join("")}`;
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
