function isDark(colour) {
  const [r, g, b] = [1, 3, 5].map((i) => parseInt(colour.slice(i, i + 2), 16));
  return 0.2126 * r + 0.7152 * g + 0.0722 * b < 128;
}

// One opaque #rrggbb from colours that lie above one another, the lowest first.
function blended(...colours) {
  const context = Object.assign(document.createElement("canvas"), { width: 1, height: 1 }).getContext("2d");
  for (const colour of colours) {
    context.fillStyle = colour;
    context.fillRect(0, 0, 1, 1);
  }
  const channels = Array.from(context.getImageData(0, 0, 1, 1).data.slice(0, 3));
  return `#${channels.map((channel) => channel.toString(16).padStart(2, "0")).join("")}`;
}
