// What is written into files.

const SVG = "http://www.w3.org/2000/svg"; // the name of a language, not a place to load from

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

function download(parent, blob, name) {
  const link = element("a", "", parent);
  link.href = URL.createObjectURL(blob);
  link.download = name;
  link.hidden = true;
  link.click();
  link.remove();
  setTimeout(() => URL.revokeObjectURL(link.href), 1000); // by then the browser has begun to save it
}
