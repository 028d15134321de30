// Each word also by the mean of its mentions, here and in what a memory has read (`boustro.encoders.extended` and `means`).

/** Words that were read before: how often, and their mean vectors, as codes or as they are. */
export class Memory {
  constructor({ words, counts, means }, folds) {
    this.rows = new Map(words.map((word, row) => [word, row]));
    this.anyCase = new Map();
    this.folds = folds;
    words.forEach((word, row) => {
      const letters = this.fold(word);
      if (!this.anyCase.has(letters)) this.anyCase.set(letters, row);
    });
    this.counts = counts;
    this.known = means.map(() => []);
    this.means = means; // for each stream {codes, centroids, axes, mean} or {vectors}, all Float32Array but codes
  }

  /** A word without its case, as Python's `str.casefold`. */
  fold(word) {
    return Array.from(word, (c) => this.folds[c] ?? c.toLowerCase()).join("");
  }

  /** Adds count * mean of a row to `sums` (D,). */
  add(row, stream, sums) {
    const { codes, mean, vectors } = this.means[stream], count = this.counts[row], width = sums.length;
    if (vectors) {
      for (let d = 0; d < width; d++) sums[d] += count * vectors[row * width + d];
      return;
    }
    const own = new Float32Array(mean), parts = codes.length / this.rows.size;
    for (let m = 0; m < parts; m++) {
      const part = this.decoded(stream, m, codes[row * parts + m], parts, width);
      for (let d = 0; d < width; d++) own[d] += part[d];
    }
    for (let d = 0; d < width; d++) sums[d] += count * own[d];
  }

  /** What a code of a part says (D,); kept, because few codes are in use. */
  decoded(stream, part, code, parts, width) {
    const known = this.known[stream], key = part * 256 + code;
    if (known[key]) return known[key];
    const { centroids, axes } = this.means[stream], size = axes.length / width / parts, own = new Float32Array(width);
    for (let r = 0; r < size; r++) {
      const weight = centroids[key * size + r], axis = (part * size + r) * width;
      for (let d = 0; d < width; d++) own[d] += weight * axes[axis + d];
    }
    return (known[key] = own);
  }
}

/** For each word the mean (D,) over its mentions in its text and in the memories; `vectors` is (W, rows, D), flat. */
export function poolMentions(texts, vectors, rows, stream, memories) {
  const count = texts.reduce((sum, words) => sum + words.length, 0), width = vectors.length / count / rows;
  const result = new Float32Array(count * width);
  let before = 0;
  for (const words of texts) {
    const kinds = Map.groupBy ? Map.groupBy(words.keys(), (i) => words[i].text) : groups(words);
    for (const [word, mentions] of kinds) {
      const sums = new Float32Array(width);
      for (const i of mentions) {
        const from = ((before + i) * rows + rows - 1) * width;
        for (let d = 0; d < width; d++) sums[d] += vectors[from + d];
      }
      let total = mentions.length;
      for (const [memory, row] of lookUp(word, memories)) {
        memory.add(row, stream, sums);
        total += memory.counts[row];
      }
      for (let d = 0; d < width; d++) sums[d] /= total;
      for (const i of mentions) result.set(sums, (before + i) * width);
    }
    before += words.length;
  }
  return result;
}

function groups(words) {
  const found = new Map();
  words.forEach(({ text }, i) => found.set(text, [...(found.get(text) ?? []), i]));
  return found;
}

/** [memory, row] of those that have the word; in any case, where none has it as it is. */
function lookUp(word, memories) {
  const exact = memories.map((memory) => [memory, memory.rows.get(word)]).filter(([, row]) => row !== undefined);
  if (exact.length) return exact;
  return memories.map((m) => [m, m.anyCase.get(m.fold(word))]).filter(([, row]) => row !== undefined);
}
