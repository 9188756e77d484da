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
