// The controls of an explorer on a page without a kernel.

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
