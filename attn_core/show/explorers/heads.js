// The steps of heads.py for pages without a kernel.

// A map per head of an untrained layer: hashed.js computes them. The row holds a caption for each number of tokens.
COMPUTED.heads = ({ sentence, embed_dim, num_heads }, { panels, splits }, [captions]) => {
  const tokens = splitTokens(sentence);
  const { weights, length } = headMaps(tokens, embed_dim, num_heads);
  const labelled = { rows: length, columns: length, row_labels: tokens, column_labels: tokens };
  const split = splits[sentence.includes(tokens.join("")) ? "characters" : "spaces"];
  return {
    panels: panels.slice(0, num_heads).map((panel, head) => {
      const matrix = tokens.map((_, i) => weights.subarray((head * length + i) * length, (head * length + i + 1) * length));
      return { ...panel, ...labelled, matrix: matrix.map((row) => [...row]) };
    }),
    caption: captions[length - 1].replace("{split}", split),
  };
};
