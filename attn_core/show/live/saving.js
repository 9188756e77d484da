// The whole view as a file: a picture in pixels or in lines, or the numbers.

function saveAs(view, kind) {
  const { model, panels, root } = view;
  const about = model.get("name") || model.get("caption") || panels[0].title;
  const words = about.toLowerCase().match(/[\p{L}\p{N}]+/gu) || ["attention"];
  const name = `${words.join("-").slice(0, 60)}.${kind.toLowerCase()}`;
  if (kind === "CSV") return download(root, new Blob([csv(panels)], { type: "text/csv" }), name);
  if (kind === "SVG") return download(root, new Blob([svgText(view)], { type: "image/svg+xml" }), name);
  pngCanvas(view).toBlob((blob) => download(root, blob, name), "image/png");
}

function svgText(view) {
  const picture = compose(view);
  const context = svgContext(...picture.size);
  context.add("title", {}, view.model.get("caption"));
  context.add("style", {}, fontRule(view));
  paint(view, context, picture);
  return new XMLSerializer().serializeToString(context.element);
}

function pngCanvas(view) {
  const picture = compose(view);
  const [width, height] = picture.size;
  const canvas = document.createElement("canvas");
  [canvas.width, canvas.height] = [2 * width, 2 * height];
  const context = canvas.getContext("2d");
  context.scale(2, 2);
  paint(view, context, picture);
  return canvas;
}

// Where things stand on a picture of the whole view: as on the page, with the caption below.
function compose({ model, holder, ruler, font, titleFont, panels, parts }) {
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

function paint(view, context, { places, lines, margin, bottom, size }) {
  const { paper, ink } = themeColours(view.root);
  const write = (text, x, y) => {
    context.textAlign = "left";
    context.fillStyle = ink;
    context.fillText(text, x, y);
  };
  context.textBaseline = "middle";
  context.fillStyle = paper;
  context.fillRect(0, 0, ...size);
  places.forEach((place, i) => {
    const panel = view.panels[i];
    context.font = view.titleFont;
    place.lines.forEach((line, k) => write(line, place.x, place.y + 8 + 16 * k));
    context.font = view.font;
    context.save();
    context.translate(place.x, place.y + place.below);
    // What the pointer happened to touch is not part of the picture; the query whose lines stand out is.
    const selected = panel.kind === "lines" ? view.parts[i].selected : null;
    DRAW[panel.kind](context, panel, { ...look(view), ink }, selected);
    context.restore();
  });
  lines.forEach((line, k) => write(line, margin, bottom + 8 + 17 * k));
}

// The glyphs that the reader's system may lack go into the file.
function fontRule({ model, family }) {
  const bytes = fontBytes(model);
  if (!bytes.length) return "";
  const text = btoa(Array.from(bytes, (byte) => String.fromCharCode(byte)).join(""));
  return `@font-face{font-family:"${family}";src:url("data:font/otf;base64,${text}")}`;
}
