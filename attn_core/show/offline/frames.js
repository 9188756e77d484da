// Blocks of text from Python, unpacked; and from them the frames of an explorer, stored or computed.

const COMPUTED = {}; // a function for each explorer with too many states to store, by its name

// What a setting cannot be shown for, as a sentence for the reader.
class Refusal extends Error {}

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
function storedFrames({ panels, lists, shared, captions, templates }, values) {
  const panel = (number) => {
    const layout = { ...panels[number] };
    for (const field of shared) layout[field] = lists[layout[field]];
    return layout;
  };
  const captionOf = (described) => {
    if (!Array.isArray(described)) return described; // a text or a number
    const named = Object.entries(described[1]).map(([name, value]) => [name, captionOf(value)]);
    return { template: templates[described[0]], values: Object.fromEntries(named) };
  };
  return ([caption, ...numbers]) => ({
    panel_layout: numbers.map(panel),
    values,
    caption: filled(captionOf(captions[caption])),
  });
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
