// The steps of qkv.py for pages without a kernel.

COMPUTED.qkv = ({ a1_1, a1_2, a2_1, a2_2, mask }, { matrices, layout, caption }) => {
  const a = [[a1_1, a1_2], [a2_1, a2_2]];
  const [q, k, v] = matrices.map((matrix) => product(a, matrix));
  const scores = product(q, transposed(k)).map((row) => row.map((score) => score / Math.sqrt(2)));
  if (mask === "causal") scores[0][1] = -Infinity;
  const weights = scores.map(softmax);
  const output = product(weights, v);
  const matrix = [a, q, k, v, scores, weights, output];
  const [[first, second], [output_1, output_2]] = [weights[0], output[0]];
  return {
    panels: layout.map((panel, i) => ({ ...panel, ...limits(panel, matrix[i]), matrix: matrix[i] })),
    caption: filled({ template: caption, values: { first, second, output_1, output_2 } }),
  };
};

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

// Panel.limits, for what is computed here.
function limits({ unit }, matrix) {
  if (unit === "weight") return { low: 0, high: 1 };
  const top = Math.max(...matrix.flat().filter(Number.isFinite).map(Math.abs)) || 1;
  return { low: -top, high: top };
}
