// Runs an explorer on a page without a kernel. Its controls choose among frames that Python computed when the page was
// made; where there are too many states for that, a function of steps.js computes the frame.

const COMPUTED = {}; // a function for each explorer with too many states to store, by its name
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

async function unpacked(encoded) {
  const packed = Uint8Array.from(atob(encoded.trim()), (letter) => letter.charCodeAt(0));
  const stream = new Blob([packed]).stream().pipeThrough(new DecompressionStream("gzip"));
  return new Response(stream).arrayBuffer();
}

// Two lengths of four bytes, then as many bytes of header and font; values take the rest.
function blockParts(buffer) {
  const lengths = new DataView(buffer);
  const [headerLength, fontLength] = [lengths.getUint32(0, true), lengths.getUint32(4, true)];
  return {
    header: JSON.parse(new TextDecoder().decode(new Uint8Array(buffer, 8, headerLength))),
    font: new DataView(buffer, 8 + headerLength, fontLength),
    values: new DataView(buffer, 8 + headerLength + fontLength),
  };
}

// A source of frames: from a row of the header and the settings to the traits that the view draws.
function storedFrames({ panels, lists, shared, captions }, values) {
  const panel = (number) => {
    const layout = { ...panels[number] };
    for (const field of shared) layout[field] = lists[layout[field]];
    return layout;
  };
  return ([caption, ...numbers]) => ({ panel_layout: numbers.map(panel), values, caption: captions[caption] });
}

function computedFrames({ pieces }, compute) {
  return (row, settings) => {
    const { panels, caption } = compute(settings, pieces, row);
    const count = panels.reduce((sum, panel) => sum + panel.rows * panel.columns, 0);
    const values = new DataView(new ArrayBuffer(4 * count));
    let offset = 0;
    const panel_layout = panels.map(({ matrix, ...layout }) => {
      matrix.flat().forEach((value, i) => values.setFloat32(4 * (offset + i), value, true));
      offset += layout.rows * layout.columns;
      return { ...layout, offset: offset - layout.rows * layout.columns };
    });
    return { panel_layout, values, caption };
  };
}

// What is legal together. The listed controls come in an order in which each depends on those before it only.
function legality(rows, depth) {
  const offers = new Map(); // from the places of the controls before to the places of the next one
  const rest = new Map(); // from the places of all to what else stands in the row
  for (const row of rows) {
    for (let k = 0; k < depth; k++) {
      const before = row.slice(0, k).join();
      const places = offers.get(before) || offers.set(before, []).get(before);
      if (places.at(-1) !== row[k]) places.push(row[k]);
    }
    rest.set(row.slice(0, depth).join(), row.slice(depth));
  }
  return { offers: (places) => offers.get(places.join()), rest: (places) => rest.get(places.join()) };
}

// The places of the listed controls after one of them moved: it keeps its new place; each after it keeps its own or takes
// the next lower legal one. A control that stays full and was at its last place goes to the last place again.
function fitted(before, moved, to, legal, staysFull) {
  const places = [...before.slice(0, moved), to];
  for (let k = moved + 1; k < before.length; k++) {
    const offers = legal.offers(places);
    const full = staysFull.includes(k) && before[k] === legal.offers(before.slice(0, k)).at(-1);
    places.push(full ? offers.at(-1) : (offers.findLast((place) => place <= before[k]) ?? offers[0]));
  }
  return places;
}

function run(place, { name, controls, listed, rows, stays_full: staysFull, traits, problem, glyphs }, source, font) {
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
      model.change({ problem: problem + error.message }); // the last picture stays
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

function add(kind, parent, properties = {}) {
  const node = Object.assign(document.createElement(kind), properties);
  parent.append(node);
  return node;
}

function controlRow(place, id, label) {
  const line = add("div", place, { className: "control" });
  add("label", line, { htmlFor: id, textContent: label });
  return line;
}

const makeField = {
  slider({ place, id, control, offers, get, move }) {
    const line = controlRow(place, id, control.label);
    const input = add("input", line, { type: "range", id, min: 0 });
    const output = add("output", line, { htmlFor: id, ariaLive: "off" }); // the slider says its value itself
    input.addEventListener("input", () => move(offers()[input.valueAsNumber]));
    const refresh = () => {
      input.max = offers().length - 1;
      input.value = offers().indexOf(get());
      output.textContent = control.texts[get()];
      input.setAttribute("aria-valuetext", output.textContent);
    };
    return { refresh };
  },
  choice({ place, id, control, offers, get, move }) {
    const select = add("select", controlRow(place, id, control.label), { id });
    select.addEventListener("change", () => move(offers()[select.selectedIndex]));
    const refresh = () => {
      select.replaceChildren(...offers().map((place) => new Option(control.texts[place])));
      select.selectedIndex = offers().indexOf(get());
    };
    return { refresh };
  },
  text({ place, id, control, get, move }) {
    const input = add("input", controlRow(place, id, control.label), { type: "text", id, value: get(), autocomplete: "off" });
    input.spellcheck = false;
    // While characters are composed from strokes or sounds, the text is not yet what the reader means.
    input.addEventListener("input", (event) => event.isComposing || move(input.value));
    input.addEventListener("compositionend", () => move(input.value));
    return { refresh: () => {} };
  },
};
