// The numbers of a panel as a table.

function fillTable({ sheet, numbers, panels, shown }) {
  sheet.replaceChildren(); // a closed one stays empty, so that sliders stay fast
  const panel = panels[shown || 0];
  if (!numbers.open || !panel) return;
  const table = element("table", "", sheet);
  element("caption", "", table).textContent = panel.title;
  sheet.setAttribute("aria-label", `Numbers: ${panel.title}`);
  const head = element("tr", "", element("thead", "", table));
  heading(`${panel.row_name} / ${panel.column_name}`, "col", head);
  for (const name of panel.column_labels) heading(name, "col", head);
  const body = element("tbody", "", table);
  panel.row_labels.forEach((name, row) => {
    const line = element("tr", "", body);
    heading(name, "row", line);
    panel.column_labels.forEach((_, column) => {
      const value = panel.values[row * panel.columns + column];
      element("td", "", line).textContent = panel.texts[row] ?? spoken(value, panel.unit);
    });
  });
}

function heading(text, scope, row) {
  const cell = element("th", "", row);
  cell.scope = scope;
  cell.textContent = text;
}
