// Words to piece ids: byte-level BPE, each word on its own, as `boustro.text.alignment` does it.

const REMEMBERED = 1 << 15, ENDS = 64; // of a longer word the first and the last letters are read

/** A tokenizer: `split` is the source of the regular expression that comes before the merges. */
export class Tokenizer {
  constructor({ vocabulary, merges, split, whole, fallback }) {
    this.ids = new Map(vocabulary);
    this.ranks = new Map(merges.map(([left, right], rank) => [`${left} ${right}`, rank]));
    this.split = split === null ? null : new RegExp(split, "gu");
    this.whole = whole; // a part that is a piece stays as it is, whatever the merges say
    this.fallback = fallback;
    this.letters = byteLetters();
    this.memory = new Map();
  }

  /** The ids of a word; `spaced` where white space stands before it. */
  word(text, spaced) {
    const letters = text.length > 2 * ENDS ? Array.from(text) : [];
    const read = letters.length > 2 * ENDS ? [...letters.slice(0, ENDS), ...letters.slice(-ENDS)].join("") : text;
    const given = spaced ? ` ${read}` : read;
    let ids = this.memory.get(given);
    if (ids === undefined) {
      ids = this.parts(given).flatMap((part) => this.pieces(part)).map((piece) => this.ids.get(piece)).filter((id) => id !== undefined);
      if (!ids.length) ids = [this.fallback];
      if (this.memory.size > REMEMBERED) this.memory.clear();
      this.memory.set(given, ids);
    }
    return ids;
  }

  /** The text in the parts that the expression finds, and what is between them. */
  parts(text) {
    if (this.split === null) return [text];
    const parts = [];
    let done = 0;
    for (const found of text.matchAll(this.split)) {
      if (found.index > done) parts.push(text.slice(done, found.index));
      if (found[0]) parts.push(found[0]);
      done = found.index + found[0].length;
    }
    return done < text.length ? [...parts, text.slice(done)] : parts;
  }

  pieces(part) {
    const pieces = Array.from(new TextEncoder().encode(part), (byte) => this.letters[byte]);
    if (this.whole && this.ids.has(pieces.join(""))) return [pieces.join("")];
    for (;;) {
      let best = Infinity, at = -1;
      for (let i = 0; i + 1 < pieces.length; i++) {
        const rank = this.ranks.get(`${pieces[i]} ${pieces[i + 1]}`);
        if (rank !== undefined && rank < best) [best, at] = [rank, i];
      }
      if (at < 0) return pieces;
      pieces.splice(at, 2, pieces[at] + pieces[at + 1]);
    }
  }
}

/** The letter that stands for each byte in a vocabulary, as in GPT-2's: printable ones for themselves. */
function byteLetters() {
  const printable = (b) => (b >= 33 && b <= 126) || (b >= 161 && b <= 172) || b >= 174;
  let others = 0;
  return Array.from({ length: 256 }, (_, b) => String.fromCodePoint(printable(b) ? b : 256 + others++));
}
