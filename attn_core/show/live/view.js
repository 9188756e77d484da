// The live view: panels on canvases under pointer and keys, and buttons that save them. All values come from Python;
// nothing here computes attention.

function render({ model, el }) {
  const view = newView(model, el);
  view.sliders = watchSliders(view.root);
  // Python sends several traits at once: they are drawn together, and still in the frame that comes next.
  const changed = () => drawOnce(view, queueMicrotask);
  const traits = ["values", "panel_layout", "caption", "problem", "palettes"];
  for (const trait of traits) model.on(`change:${trait}`, changed);
  const endTheme = watchTheme(view);
  const room = new ResizeObserver(() => schedule(view)); // bars are as long as the page has room for
  room.observe(view.holder);
  const endFont = watchFont(view);
  schedule(view);
  return () => {
    clearTimeout(view.settling);
    endFont();
    for (const trait of traits) model.off(`change:${trait}`, changed);
    view.sliders.end();
    endTheme();
    room.disconnect();
  };
}

function schedule(view) {
  drawOnce(view, requestAnimationFrame);
}

function drawOnce(view, when) {
  if (view.waiting) return;
  view.waiting = true;
  when(() => {
    view.waiting = false;
    update(view);
  });
}

function update(view) {
  const { model, root } = view;
  const layout = model.get("panel_layout");
  if (view.parts.length !== layout.length) {
    view.holder.replaceChildren();
    view.parts = layout.map((_, index) => makePart(view, index));
    view.shown = null;
  }
  view.panels = arrangedPanels(view);
  const inUse = look(view);
  view.panels.forEach((panel, index) => {
    const part = view.parts[index];
    part.title.textContent = panel.title;
    part.canvas.setAttribute("aria-label", label(panel));
    forget(view, index);
    draw(view, panel, part, inUse);
  });
  keepRoom(view);
  if (view.shown !== null) read(view, view.shown);
  if (view.shown === null) view.readout.textContent = hint(layout);
  view.caption.textContent = model.get("caption");
  view.problem.textContent = model.get("problem");
  root.classList.toggle("refused", model.get("problem") !== ""); // what is shown belongs to an earlier setting
  root.setAttribute("aria-label", model.get("caption"));
  // The controls of an explorer show tokens as well.
  (root.closest(".widget-vbox, .explorer") || root).style.setProperty("--attention-token-font", view.family);
  fillTable(view);
  nameSliders(root);
  view.sliders.begin();
  tell(view);
}

// Panels are placed for letters of VIEW_SIZE pixels and enlarged to those of the page.
function draw(view, panel, { canvas, selected }, colours) {
  const context = canvas.getContext("2d");
  const ratio = (window.devicePixelRatio || 1) * view.zoom;
  const [width, height] = panel.size;
  if (canvas.width !== Math.round(width * ratio) || canvas.height !== Math.round(height * ratio)) {
    canvas.width = Math.round(width * ratio);
    canvas.height = Math.round(height * ratio);
    canvas.style.width = `${width * view.zoom}px`;
    canvas.style.height = `${height * view.zoom}px`;
  }
  context.setTransform(ratio, 0, 0, ratio, 0, 0);
  context.clearRect(0, 0, width, height);
  context.font = view.font;
  context.textBaseline = "middle";
  DRAW[panel.kind](context, panel, colours, selected);
}

// Room once taken is kept while a slider moves or somebody types, so that the page below does not jump; then it settles.
function keepRoom(view) {
  const { holder } = view;
  holder.style.minHeight = `${Math.max(parseFloat(holder.style.minHeight) || 0, holder.offsetHeight)}px`;
  clearTimeout(view.settling);
  view.settling = setTimeout(() => (holder.style.minHeight = "0"), STYLE.SETTLES_AFTER);
}

function fontBytes(model) {
  const bytes = model.get("font");
  return new Uint8Array(bytes.buffer, bytes.byteOffset, bytes.byteLength);
}

// Loads the glyphs that come along whenever there are others. Returns what ends that.
function watchFont(view) {
  const { model, family } = view;
  let face = null;
  const load = async () => {
    if (face) document.fonts.delete(face);
    face = null;
    const bytes = fontBytes(model).slice();
    if (bytes.length === 0) return;
    face = new FontFace(family, bytes);
    document.fonts.add(face);
    await face.load();
    schedule(view);
  };
  model.on("change:font", load);
  load();
  return () => {
    model.off("change:font", load);
    if (face) document.fonts.delete(face);
  };
}
