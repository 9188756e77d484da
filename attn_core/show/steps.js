// Functions that compute a frame of an explorer with too many states to store, with the same steps as Python: from the
// settings, pieces that Python made and what the row of the legal settings holds, to panels and a caption.

export function qkvSteps({ a1_1, a1_2, a2_1, a2_2, mask }, { matrices, layout, caption }) {
  const a = [[a1_1, a1_2], [a2_1, a2_2]];
  const [q, k, v] = matrices.map((matrix) => product(a, matrix));
  const scores = product(q, transposed(k)).map((row) => row.map((score) => score / Math.sqrt(2)));
  if (mask === "causal") scores[0][1] = -Infinity;
  const weights = scores.map(softmax);
  const output = product(weights, v);
  const matrix = [a, q, k, v, scores, weights, output];
  const numbers = [...weights[0], ...output[0]].map(fourDecimals);
  return {
    panels: layout.map((panel, i) => ({ ...panel, ...limits(panel, matrix[i]), matrix: matrix[i] })),
    caption: caption.replace(/\{(\d)\}/g, (_, i) => numbers[i]),
  };
}

// A map per head of an untrained layer: untrained.js computes them. The row holds a caption for each number of tokens.
export function headSteps(untrained, { sentence, embed_dim, num_heads }, { panels, splits }, [captions]) {
  const tokens = untrained.splitTokens(sentence);
  const { weights, length } = untrained.headMaps(tokens, embed_dim, num_heads);
  const labelled = { rows: length, columns: length, row_labels: tokens, column_labels: tokens };
  const split = splits[sentence.includes(tokens.join("")) ? "characters" : "spaces"];
  return {
    panels: panels.slice(0, num_heads).map((panel, head) => {
      const matrix = tokens.map((_, i) => weights.subarray((head * length + i) * length, (head * length + i + 1) * length));
      return { ...panel, ...labelled, matrix: matrix.map((row) => [...row]) };
    }),
    caption: captions[length - 1].replace("{split}", split),
  };
}

const transposed = (a) => a[0].map((_, j) => a.map((row) => row[j]));

function product(a, b) {
  return a.map((row) => transposed(b).map((column) => row.reduce((sum, x, i) => sum + x * column[i], 0)));
}

function softmax(scores) {
  const top = Math.max(...scores);
  const powers = scores.map((score) => Math.exp(score - top));
  const sum = powers.reduce((x, y) => x + y);
  return powers.map((power) => power / sum);
}

function fourDecimals(x) {
  return x.toFixed(4).replace("-0.0000", "0.0000");
}

// Panel.limits, for what is computed here.
function limits({ unit }, matrix) {
  if (unit === "weight") return { low: 0, high: 1 };
  const top = Math.max(...matrix.flat().filter(Number.isFinite).map(Math.abs)) || 1;
  return { low: -top, high: top };
}
