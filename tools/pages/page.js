const query = document.getElementById("query");

function setUpTheme() {
  const button = document.getElementById("theme");
  const other = () => (document.documentElement.dataset.theme === "dark" ? "light" : "dark");
  const show = () => {
    applyTheme();
    button.textContent = other() === "dark" ? "Dark theme" : "Light theme";
  };
  button.addEventListener("click", () => {
    memory.theme = other();
    document.documentElement.dataset.theme = other(); // also where nothing is remembered
    show();
  });
  system.addEventListener("change", show);
  button.hidden = false;
  show();
}

// The index is a script that is added when it is first needed: a page opened from a file cannot fetch.
let index;
function loadIndex() {
  index ??= new Promise((resolve, reject) => {
    const script = document.createElement("script");
    script.src = "assets/index.js";
    script.onload = () => resolve(courseIndex);
    script.onerror = reject;
    document.head.append(script);
  });
  return index;
}

function matches(sections, words) {
  const scored = sections.map((section) => {
    const title = `${section.title} ${section.page}`.toLowerCase();
    const text = section.text.toLowerCase();
    const found = words.every((word) => title.includes(word) || text.includes(word));
    const inTitle = words.filter((word) => section.title.toLowerCase().includes(word)).length;
    const often = words.reduce((sum, word) => sum + text.split(word).length - 1, 0);
    return { section, score: found ? 100 * inTitle + often + 1 : 0 };
  });
  return scored.filter(({ score }) => score).sort((a, b) => b.score - a.score);
}

// The text around the first word, with every word marked. Text stays text: no markup is made from it.
function excerpt(text, words) {
  const lower = text.toLowerCase();
  const near = Math.min(...words.map((word) => lower.indexOf(word)).filter((at) => at >= 0), text.length) - 40;
  const first = near > 0 ? text.indexOf(" ", near) + 1 : 0; // not inside a word
  const piece = text.slice(first, first + 140);
  const node = document.createElement("span");
  if (first) node.append("… ");
  let rest = piece;
  while (rest) {
    const places = words.map((word) => [rest.toLowerCase().indexOf(word), word.length]).filter(([at]) => at >= 0);
    if (!places.length) break;
    const [at, length] = places.reduce((a, b) => (b[0] < a[0] ? b : a));
    const mark = document.createElement("mark");
    mark.textContent = rest.slice(at, at + length);
    node.append(rest.slice(0, at), mark);
    rest = rest.slice(at + length);
  }
  node.append(rest, first + 140 < text.length ? " …" : "");
  return node;
}

function setUpSearch() {
  const results = document.querySelector(".results");
  const list = results.querySelector("ol");
  const status = document.getElementById("found");
  const close = () => {
    results.hidden = true;
  };
  const search = async () => {
    const words = query.value.toLowerCase().split(/\s+/).filter(Boolean);
    const asked = query.value;
    const sections = await loadIndex();
    if (asked !== query.value) return; // typed on in the meantime
    if (!words.length) return close();
    const found = matches(sections, words);
    status.textContent = found.length
      ? `${found.length} ${found.length === 1 ? "section" : "sections"}`
      : "No section has all these words.";
    list.replaceChildren(
      ...found.slice(0, 12).map(({ section }) => {
        const link = document.createElement("a");
        link.href = section.name ? `${section.file}#${section.name}` : section.file;
        const title = document.createElement("b");
        title.textContent = section.title;
        link.append(title);
        if (section.name) link.append(` · ${section.page}`);
        link.append(document.createElement("br"), excerpt(section.text, words));
        const item = document.createElement("li");
        item.append(link);
        return item;
      }),
    );
    results.hidden = false;
  };
  const walk = (event) => {
    if (event.key === "Escape") {
      close();
      query.focus();
    }
    const step = { ArrowDown: 1, ArrowUp: -1 }[event.key];
    if (!step || results.hidden) return;
    event.preventDefault();
    const stops = [query, ...list.querySelectorAll("a")];
    stops[Math.min(Math.max(stops.indexOf(document.activeElement) + step, 0), stops.length - 1)].focus();
  };
  query.addEventListener("input", search);
  query.addEventListener("focus", () => query.value && search());
  query.addEventListener("keydown", (event) => event.key === "Enter" && !results.hidden && list.querySelector("a")?.click());
  query.parentElement.addEventListener("keydown", walk);
  list.addEventListener("click", close);
  document.addEventListener("pointerdown", (event) => event.target.closest(".search") || close());
  document.addEventListener("focusin", (event) => event.target.closest(".search") || close());
  document.addEventListener("keydown", (event) => {
    if (event.key !== "/" || event.ctrlKey || event.metaKey || event.target.closest("input, textarea, select")) return;
    event.preventDefault();
    query.focus();
  });
}

function setUpPictures() {
  for (const button of document.querySelectorAll("button[data-save]")) {
    button.addEventListener("click", () => {
      const link = document.createElement("a");
      link.href = button.closest("figure").querySelector("img").src;
      link.download = button.dataset.save;
      link.click();
    });
  }
}

// What scrolls by itself can be reached by keyboard; what fits stays out of the way.
function watchScrolling() {
  const mark = ({ target }) => {
    if (target.scrollWidth > target.clientWidth) target.tabIndex = 0;
    else target.removeAttribute("tabindex");
  };
  const sizes = new ResizeObserver((entries) => entries.forEach(mark));
  for (const node of document.querySelectorAll("pre, .scroll, .formula")) sizes.observe(node);
}

// On a narrow screen the contents are folded.
function foldContents() {
  const details = document.querySelector(".contents details");
  const narrow = matchMedia("(max-width: 1099px)");
  const fold = () => (details.open = !narrow.matches);
  narrow.addEventListener("change", fold);
  fold();
}

setUpTheme();
setUpSearch();
setUpPictures();
watchScrolling();
foldContents();
