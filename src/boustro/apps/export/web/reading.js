// Words to vectors: which pieces an LM reads together, and which of its states a word has (`boustro.encoders.reading`).

const BATCH_PIECES = 1024;

/** The windows of a text of so many pieces; `first` is -1 where there is a state before that of the first piece. */
export function planWindows(pieces, size, first, centred) {
  if (pieces <= size) return [{ start: 0, stop: pieces, first, last: pieces }];
  const overlap = Math.floor(size / 2), margin = centred ? Math.floor((size - overlap) / 2) : 0;
  const windows = [];
  for (let start = 0; start < pieces - overlap; start += size - overlap) {
    const stop = Math.min(start + size, pieces);
    windows.push({ start, stop, first: windows.at(-1)?.last ?? first, last: stop - margin });
  }
  windows.at(-1).last = pieces;
  return windows;
}

/** One LM of a tagger: a graph, and how it is given words. */
export class Part {
  constructor(facts, tokenizer, session, Tensor, empty) {
    Object.assign(this, facts);
    this.tokenizer = tokenizer;
    this.session = session;
    this.Tensor = Tensor;
    this.empty = empty; // (K, rows, width) of a word without a state, flat
  }

  /** The vectors (W, rows, K * width) of texts, each a list of words, flat; `breathe` is awaited between two runs. */
  async read(texts, breathe) {
    const { rows, width, places } = this, step = places.length * width;
    const count = texts.reduce((sum, words) => sum + words.length, 0);
    const result = new Float32Array(count * rows * step);
    this.fill(result, count);
    const windows = [];
    let before = 0;
    for (const words of texts) {
      const { ids, bounds } = this.align(words);
      const states = places.map((place) => select(place, bounds, this.backward));
      for (const window of planWindows(ids.length, this.window, this.prefix.length ? -1 : 0, this.centred)) {
        if (window.stop > window.start) windows.push({ ...window, ids, states, before });
      }
      before += words.length;
    }
    windows.sort((a, b) => a.stop - a.start - (b.stop - b.start));
    const touched = places.map(() => new Set());
    for (const batch of batches(windows)) {
      const outputs = await this.run(batch, places.length);
      batch.columns = Math.max(...batch.map((w) => this.length(w)));
      outputs.forEach(({ words, weights, data }, k) => {
        words.forEach((word, n) => {
          const fresh = !touched[k].has(word);
          touched[k].add(word);
          for (let row = 0; row < rows; row++) {
            const to = (word * rows + row) * step + k * width, from = (n * rows + row) * width;
            for (let d = 0; d < width; d++) {
              const value = weights[n] * data[from + d];
              result[to + d] = fresh ? value : result[to + d] + value;
            }
          }
        });
      });
      await breathe(batch.reduce((sum, w) => sum + w.stop - w.start, 0));
    }
    return result;
  }

  fill(result, count) {
    const { rows, width, places, empty } = this, step = places.length * width;
    for (let word = 0; word < count; word++)
      for (let row = 0; row < rows; row++)
        for (let k = 0; k < places.length; k++)
          result.set(empty.subarray((k * rows + row) * width, (k * rows + row + 1) * width), (word * rows + row) * step + k * width);
  }

  /** Piece ids in reading order; the pieces of each word, in text order, begin at its bound. */
  align(words) {
    const ids = [], bounds = [0];
    for (const { text, spaced } of words) {
      ids.push(...this.tokenizer.word(text, spaced || this.spacing === "always"));
      bounds.push(ids.length);
    }
    return { ids: this.backward ? ids.reverse() : ids, bounds };
  }

  length(window) {
    return this.prefix.length + window.stop - window.start + this.suffix.length;
  }

  async run(batch, numPlaces) {
    const columns = Math.max(...batch.map((w) => this.length(w)));
    const ids = new BigInt64Array(batch.length * columns).fill(BigInt(this.prefix[0] ?? 0));
    batch.forEach((w, row) => [...this.prefix, ...w.ids.slice(w.start, w.stop), ...this.suffix]
      .forEach((id, column) => { ids[row * columns + column] = BigInt(id); }));
    const given = { ids: new this.Tensor("int64", ids, [batch.length, columns]) };
    if (this.lengths) {
      given.lengths = new this.Tensor("int64", BigInt64Array.from(batch, (w) => BigInt(this.length(w))), [batch.length]);
    }
    const found = Array.from({ length: numPlaces }, (_, k) => {
      const words = [], weights = [], at = [];
      batch.forEach((w, row) => {
        for (const [word, state, weight] of w.states[k]) {
          if (state < w.first || state >= w.last) continue;
          words.push(word + w.before);
          weights.push(weight);
          at.push(BigInt(row * columns + state - w.start + this.prefix.length));
        }
      });
      given[`places_${k}`] = new this.Tensor("int64", BigInt64Array.from(at), [at.length]);
      return { words, weights };
    });
    const outputs = await this.session.run(given);
    return found.map((own, k) => ({ ...own, data: outputs[this.session.outputNames[k]].data }));
  }
}

/** [word, state, weight] of the states that words are read from; see `boustro.encoders.reading`. */
function select(place, bounds, backward) {
  const pieces = bounds.at(-1), found = [];
  let name = place;
  if (place === "first" || place === "last") name = (place === "first") !== backward ? "entry" : "exit";
  for (let word = 0; word + 1 < bounds.length; word++) {
    const [start, end] = backward ? [pieces - bounds[word + 1], pieces - bounds[word]] : [bounds[word], bounds[word + 1]];
    if (name === "mean") {
      for (let state = start; state < end; state++) found.push([word, state, 1 / (end - start)]);
    } else {
      found.push([word, { before: start - 1, entry: start, exit: end - 1 }[name], 1]);
    }
  }
  return found;
}

/** Windows of similar length together, the shortest first. */
function* batches(windows) {
  let batch = [];
  for (const window of windows) {
    if (batch.length && (batch.length + 1) * (window.stop - window.start + 1) > BATCH_PIECES) {
      yield batch;
      batch = [];
    }
    batch.push(window);
  }
  if (batch.length) yield batch;
}
