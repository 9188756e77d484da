// The steps of heads.py for pages without a kernel; hashed.js computes the maps. The row holds what a layer costs for
// each number of tokens.

COMPUTED.heads = ({ sentence, embed_dim, num_heads }, { panels, splits, caption }, [costs]) => {
  const tokens = splitTokens(sentence);
  const { weights, length } = headMaps(tokens, embed_dim, num_heads);
  const labelled = { rows: length, columns: length, row_labels: tokens, column_labels: tokens };
  const split = splits[tokens.length === 1 ? "word" : wordsOf(sentence).length > 1 ? "spaces" : "characters"];
  const sizes = { embed_dim, num_heads, head_dim: embed_dim / num_heads, tokens: length };
  return {
    panels: panels.slice(0, num_heads).map((panel, head) => {
      const matrix = tokens.map((_, i) => weights.subarray((head * length + i) * length, (head * length + i + 1) * length));
      return { ...panel, ...labelled, matrix: matrix.map((row) => [...row]) };
    }),
    caption: filled({ template: caption, values: { ...sizes, split, ...costs[length - 1] } }),
  };
};
