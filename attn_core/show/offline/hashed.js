// The maps of an untrained layer for any sentence: the steps of hashed.py, which explains them, for pages without a
// kernel. The tests compare both.

const SPREAD = 1.4;
const WHITE_SPACE = /[\t-\r\x1c-\x20\x85\xa0\u1680\u2000-\u200a\u2028\u2029\u202f\u205f\u3000]+/u; // as Python splits
const INVISIBLE =
  /^\p{Default_Ignorable_Code_Point}+|(?!\p{M}|\u200c|\u200d|[\u{e0020}-\u{e007f}])\p{Default_Ignorable_Code_Point}/gu;
const UNSPACED =
  /[\p{Script=Han}\p{Script=Hiragana}\p{Script=Katakana}\p{Script=Thai}\p{Script=Lao}\p{Script=Khmer}\p{Script=Myanmar}]/u;

// The tokens of a sentence, an array of strings. Throws a Refusal for none and for more than 40.
function splitTokens(text) {
  const words = wordsOf(text);
  const apart = words.length === 1 && (UNSPACED.test(words[0]) || !/\p{L}/u.test(words[0]));
  const tokens = apart ? charactersOf(words[0]) : words;
  if (tokens.length === 0) throw new Refusal(`the sentence is empty; type 1 to ${STYLE.MOST_TOKENS} tokens`);
  if (tokens.length > STYLE.MOST_TOKENS) {
    throw new Refusal(`the sentence has ${tokens.length} tokens, and at most ${STYLE.MOST_TOKENS} can be shown; shorten it`);
  }
  return tokens;
}

// What white space separates, without what nobody sees.
function wordsOf(text) {
  const seen = text.split(WHITE_SPACE).map((word) => word.replace(INVISIBLE, ""));
  return seen.filter((word) => word);
}

function charactersOf(word) {
  return Array.from(new Intl.Segmenter(undefined, { granularity: "grapheme" }).segment(word), ({ segment }) => segment);
}

// The weights of L tokens: weights[(h * L + i) * L + j] is what query i gives to key j in head h, each from 0.
function headMaps(tokens, embedDim, numHeads) {
  const [length, headDim] = [tokens.length, embedDim / numHeads];
  const kinds = [...new Set(tokens)]; // the same token has the same query and key
  const { queries, keys } = projections(embedDim);
  const vectors = kinds.map((token) => tokenVector(token, embedDim));
  const [q, k] = [queries, keys].map((matrix) => vectors.map((x) => timesVector(matrix, x)));
  const places = tokens.map((token) => kinds.indexOf(token));
  const weights = new Float64Array(numHeads * length * length);
  for (let h = 0; h < numHeads; h++) {
    for (let i = 0; i < length; i++) {
      const scores = places.map((place) => {
        let sum = 0;
        for (let m = h * headDim; m < (h + 1) * headDim; m++) sum += q[places[i]][m] * k[place][m];
        return sum / Math.sqrt(headDim);
      });
      const most = Math.max(...scores);
      const powers = scores.map((score) => Math.exp(score - most));
      const total = powers.reduce((sum, power) => sum + power, 0);
      weights.set(
        powers.map((power) => power / total),
        (h * length + i) * length,
      );
    }
  }
  return { weights, numHeads, length, headDim };
}

function tokenVector(token, embedDim) {
  const start = tokenSeed(token);
  return Float64Array.from({ length: embedDim }, (_, j) => Math.sqrt(3) * hashedNumber(start, j));
}

let lastProjections = {}; // the matrices of one dimension, on which a slider of heads moves
function projections(embedDim) {
  if (lastProjections.embedDim !== embedDim) {
    const scale = (Math.sqrt(3) * SPREAD) / Math.sqrt(embedDim);
    const size = embedDim * embedDim;
    const from = (first) => {
      const matrix = new Float64Array(size);
      for (let place = 0; place < size; place++) matrix[place] = scale * hashedNumber(embedDim, first + place);
      return matrix;
    };
    lastProjections = { embedDim, queries: from(0), keys: from(size) }; // the values change no weight
  }
  return lastProjections;
}

function timesVector(matrix, x) {
  const size = x.length;
  const result = new Float64Array(size);
  for (let row = 0; row < size; row++) {
    // Two sums: else each addition waits for the one before.
    const start = row * size;
    let [even, odd] = [0, 0];
    for (let column = 0; column + 1 < size; column += 2) {
      even += matrix[start + column] * x[column];
      odd += matrix[start + column + 1] * x[column + 1];
    }
    if (size % 2) even += matrix[start + size - 1] * x[size - 1];
    result[row] = even + odd;
  }
  return result;
}

function tokenSeed(token) {
  let hash = 0x811c9dc5;
  for (const character of token) hash = Math.imul(hash ^ character.codePointAt(0), 0x01000193);
  return hash;
}

function hashedNumber(start, place) {
  let x = (start + Math.imul(place, 0x9e3779b9)) >>> 0;
  x ^= x >>> 16;
  x = Math.imul(x, 0x7feb352d);
  x ^= x >>> 15;
  x = Math.imul(x, 0x846ca68b);
  x ^= x >>> 16;
  return (x >>> 0) / 2 ** 31 - 1;
}
