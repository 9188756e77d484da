let notes; // the teacher's window

function showNotes() {
  if (!notes || notes.closed) return;
  const slide = Reveal.getCurrentSlide();
  const next = Reveal.getSlides()[Reveal.getSlides().indexOf(slide) + 1];
  const page = notes.document;
  const add = (kind, text) => {
    const node = page.createElement(kind);
    node.textContent = text;
    page.body.append(node);
    return node;
  };
  page.title = "Notes";
  page.body.replaceChildren();
  page.body.style = "font: 20px/1.5 system-ui, sans-serif; margin: 1.5em; max-width: 45em; overflow-wrap: break-word";
  const heading = (kind, of) => add(kind, "").append(...[...of.querySelector("h1, h2").childNodes].map((node) => page.importNode(node, true)));
  heading("h1", slide);
  const said = slide.querySelector(".notes");
  if (said) page.body.append(page.importNode(said, true));
  add("p", next ? "Next:" : "The end");
  if (next) heading("p", next);
  const clock = add("p", "");
  clock.id = "clock";
  showTime();
}

const start = Date.now();
function showTime() {
  const minutes = Math.floor((Date.now() - start) / 60000);
  const clock = notes && !notes.closed && notes.document.getElementById("clock");
  if (clock) clock.textContent = `${minutes} minutes since these slides were opened`;
}
setInterval(showTime, 10000);

function openNotes() {
  notes = window.open("", "attention-notes", "width=700,height=700");
  showNotes();
}

// Wide and long code, outputs and tables get smaller letters; pictures and explorers are as large as the slide allows.
function fit() {
  const slide = Reveal.getCurrentSlide();
  const texts = [...slide.querySelectorAll("pre, .scroll")];
  const sizeOf = (text) => parseFloat(getComputedStyle(text).fontSize);
  for (const text of texts) {
    text.style.fontSize = "";
    if (text.scrollWidth > text.clientWidth) text.style.fontSize = `${(sizeOf(text) * text.clientWidth) / (text.scrollWidth + 8)}px`;
  }
  enlarge(slide, 1.5);
  for (let tries = 0; tries < 14 && reachesTooLow(slide); tries++) {
    for (const text of texts) text.style.fontSize = `${0.95 * sizeOf(text)}px`;
  }
}

function reachesTooLow(slide) {
  const box = slide.getBoundingClientRect();
  const content = [...slide.children].filter((node) => !node.matches(".notes"));
  return content.some((node) => ((node.getBoundingClientRect().bottom - box.top) / box.height) * 720 > 684);
}

function enlarge(slide, zoom) {
  const set = () => {
    for (const node of slide.querySelectorAll(".picture img, .explorer")) node.style.zoom = zoom;
  };
  for (set(); reachesTooLow(slide) && zoom > 0.5; set()) zoom -= 0.05;
}

// More maps than fitted at first.
const grown = new ResizeObserver((entries) => {
  const slide = Reveal.getCurrentSlide();
  for (const { target } of entries) if (slide.contains(target)) enlarge(slide, Number(target.style.zoom) || 1.5);
});

function otherTheme() {
  memory.theme = document.documentElement.dataset.theme === "dark" ? "light" : "dark";
  document.documentElement.dataset.theme = memory.theme ?? document.documentElement.dataset.theme;
  applyTheme();
}

// Keys that move a slider or walk over a map do not turn the slide.
for (const place of document.querySelectorAll(".explorer")) {
  place.addEventListener("keydown", (event) => event.stopPropagation());
}
for (const button of document.querySelectorAll("button[data-save]")) button.remove();
applyTheme();

Reveal.initialize({
  width: 1280,
  height: 720,
  margin: 0,
  center: false,
  hash: true,
  transition: "none",
  backgroundTransition: "none",
  slideNumber: "c/t",
  keyboard: { 68: otherTheme, 83: openNotes },
});
for (const event of ["ready", "slidechanged"]) {
  Reveal.on(event, fit);
  Reveal.on(event, showNotes);
}
Reveal.on("ready", () => document.querySelectorAll(".explorer").forEach((place) => grown.observe(place)));
