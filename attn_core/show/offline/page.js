// Runs the explorers of a page without a kernel. Their controls choose among frames that Python computed when the page was
// made; where there are too many states for that, a function of COMPUTED computes the frame.

const TOO_OLD = "This browser cannot unpack the explorer. A newer one can; the picture shows one of its settings.";

// Every explorer of the page: a place with a script behind it whose text is its block.
function startAll() {
  document.querySelectorAll("[data-explorer]").forEach((place, number) => {
    place.id = `${place.dataset.explorer}-${number}`; // several may have one name
    start(place, place.nextElementSibling.textContent).catch((error) => {
      place.dataset.state = "failed"; // then the picture is shown
      throw error;
    });
  });
}

async function start(place, encoded) {
  if (typeof DecompressionStream === "undefined") {
    place.textContent = TOO_OLD;
    place.dataset.state = "failed";
    return;
  }
  const { header, font, values } = blockParts(await unpacked(encoded));
  const source = header.function ? computedFrames(header, COMPUTED[header.function]) : storedFrames(header, values);
  run(place, header, source, font);
  place.dataset.state = "ready";
}

function run(place, { name, controls, listed, rows, stays_full: staysFull, traits, problem, fault, glyphs }, source, font) {
  const legal = legality(rows, listed.length); // of the listed controls; the others are free
  const chosen = controls.map((control) => control.start); // places among the offered values; of a field its text
  const model = standIn({ ...traits, font, problem: "" });
  const listedPlaces = () => listed.map((k) => chosen[k]);
  place.settings = () => // also for tests: the arguments of Python's function
    Object.fromEntries(controls.map(({ argument, values }, k) => [argument, values ? values[chosen[k]] : chosen[k]]));
  const show = () => {
    try {
      model.change({ ...source(legal.rest(listedPlaces()), place.settings()), problem: "" });
    } catch (error) {
      const refused = error instanceof Refusal;
      model.change({ problem: (refused ? problem : fault) + error.message }); // the last picture stays
      if (!refused) console.error(error);
    }
    for (const field of fields) field.refresh();
  };
  place.setAttribute("role", "group");
  place.setAttribute("aria-label", `Explorer of ${name}`);
  const fields = controls.map((control, k) => {
    const at = listed.indexOf(k);
    const offers = () => (at < 0 ? control.values.map((_, i) => i) : legal.offers(listedPlaces().slice(0, at)));
    const move = (to) => {
      if (at < 0) chosen[k] = to;
      else fitted(listedPlaces(), at, to, legal, staysFull).forEach((place, i) => (chosen[listed[i]] = place));
      show();
      const lacking = control.kind === "text" && [...to].some((letter) => letter >= "\u2e80" && !glyphs.includes(letter));
      if (lacking) moreGlyphs().then((bytes) => model.change({ font: bytes }));
    };
    return makeField[control.kind]({ place, id: `${place.id}-${control.argument}`, control, offers, get: () => chosen[k], move });
  });
  show();
  render({ model, el: add("div", place) });
}

// A font with the common Chinese characters, for systems that have none: loaded when somebody types one.
let typed;
function moreGlyphs() {
  typed ??= new Promise((resolve, reject) => {
    const script = add("script", document.head, { src: "assets/chinese.js", onerror: reject });
    script.onload = () => resolve(unpacked(chineseFont).then((buffer) => new DataView(buffer)));
  });
  return typed;
}

// What the view asks of its model in a notebook.
function standIn(traits) {
  const heard = {};
  const change = (changed) => {
    Object.assign(traits, changed);
    for (const trait of Object.keys(changed)) for (const listener of heard[`change:${trait}`] ?? []) listener();
  };
  return {
    change,
    get: (trait) => traits[trait],
    set: (trait, value) => change({ [trait]: value }),
    save_changes: () => {},
    on: (event, listener) => (heard[event] ??= new Set()).add(listener),
    off: (event, listener) => heard[event]?.delete(listener),
  };
}
