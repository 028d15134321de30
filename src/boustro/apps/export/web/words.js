// Text to sentences of words, as `boustro.text.words` splits it. Places are UTF-16 units, as everywhere in JavaScript.
//
// What a letter, a digit or white space is comes from the file of the tagger (`classes`), as ranges of a character
// class, so that no browser's edition of Unicode changes a word.

/** Splits texts by the classes of characters and the lists that a tagger's file names. */
export class Splitter {
  constructor({ rule, classes, abbreviations, enders, closers, fullWidth, lineBreaks }) {
    const c = classes;
    const extender = `[${c.extender}]`, letter = `(?:[${c.letterOfWord}]|${extender})`, ends = `(?![${c.word}])`;
    const mark = `[^${c.word}${c.space}]`;
    const joining = rule === 1 ? "[-/.,:&@_’']" : "(?:[-&@_’']|" +
      `(?<=[${c.decimal}])[,:/](?=[${c.decimal}])|` + // 1,000
      `(?<=(?<![${c.word}])[A-Z])/(?=[${c.decimal}]|[A-Z](?!(?![${c.decimal}A-Z])[${c.word}]))|` + // F/A-18
      `(?<=(?<![${c.word}])[A-Z]{2})/(?=[${c.decimal}])|` + // OS/2
      `\\.(?!(?<=[${c.lower}${c.extender}]\\.)(?:[IA]${ends}|[${c.upper}]${letter}))(?!(?<=[${c.decimal}]\\.)[${c.upper}][${c.lower}]))`;
    const code = rule === 1 ? "[-/.,:&@’'+=]" : "[-/+=]";
    const addresses = rule === 1 ? [] : [
      `(?:[Hh][Tt]{2}[Pp][Ss]?://|[Ff][Tt][Pp]://|[Ww]{3}\\.)(?:${letter}|[-./?#@$&+,=%:~])*(?:${letter}|/)`, // https://example.org/a?b=1
      `(?:[A-Za-z0-9][A-Za-z0-9-]*\\.){1,8}[a-z]{2,24}(?=/|:[0-9])(?:[-/.,:&@_’']${letter}+)*`, // example.org/a
      `(?=[-${c.word}.&’']{1,64}@)${letter}+(?:[-.&’']${letter}+)*@(?=${letter})${letter}+(?:${joining}${letter}+)*`, // Ada.Brandt@example.org
    ];
    this.word = new RegExp([
      `[${c.unspaced}]${extender}*`, // 中 | 国
      `(?=[A-Za-z0-9+/=_-]{129})${letter}+(?:${code}+${letter}+(?<!['’]s)(?<!['’]S))*=*`, // encoded data
      ...addresses,
      `(?:[${c.letter}]${extender}*\\.){2,}`, // U.S.
      `[${c.spacedLetter}]+(?=n['’]t${ends})`, // did | n't
      `n['’]t${ends}`,
      `['’](?:s|S|m|d|ll|re|ve)${ends}`, // 's
      `${letter}+(?:${joining}${letter}+(?<!['’]s)(?<!['’]S))*`, // 1996-97, O'Neill
      "[\\u{1f1e6}-\\u{1f1ff}]{2}", // two letters are a flag
      "\\.{2,}|-{2,}",
      `${mark}(?:${extender}|(?<=\\u200d)${mark})*`, // an emoji, or a mark of punctuation
    ].join("|"), "uy");
    const one = (ranges) => new RegExp(`^[${ranges}]`, "u");
    this.isSpace = one(c.space);
    this.isUpper = one(c.upper);
    this.opens = one(c.upper + c.digit + c.caseless + "\"'“‘(\\[");
    this.lines = new RegExp(`[^${lineBreaks}]+`, "gu");
    this.abbreviations = new Set(abbreviations);
    [this.enders, this.closers, this.fullWidth] = [enders, closers, fullWidth].map((list) => new Set(list));
  }

  /** Sentences, each a list of {text, start, end, spaced}. */
  split(text) {
    const sentences = [];
    for (const line of text.matchAll(this.lines)) {
      const words = this.wordsOf(line[0], line.index, text);
      let begin = 0;
      words.forEach((_, i) => {
        if (i + 1 < words.length && !this.endsSentence(words, i)) return;
        sentences.push(words.slice(begin, i + 1).map((w, k) => ({ ...w, spaced: k === 0 || words[begin + k - 1].end < w.start })));
        begin = i + 1;
      });
    }
    return sentences;
  }

  wordsOf(line, offset) {
    const words = [];
    for (let at = 0; at < line.length; ) {
      const rest = String.fromCodePoint(line.codePointAt(at));
      if (this.isSpace.test(rest)) {
        at += rest.length;
        continue;
      }
      this.word.lastIndex = at;
      let end = at + (this.word.exec(line)?.[0].length || rest.length);
      const word = line.slice(at, end);
      if (line[end] === ".") { // of an abbreviation, or of an initial?
        const capital = this.isUpper.test(word);
        const known = capital && this.abbreviations.has(word.toLowerCase());
        if (known || (capital && word.length === rest.length && word !== "I")) end += 1;
      }
      words.push({ text: line.slice(at, end), start: offset + at, end: offset + end });
      at = end;
    }
    return words;
  }

  endsSentence(words, i) {
    let word = words[i].text;
    if (this.closers.has(word) && i && this.enders.has(words[i - 1].text)) word = words[i - 1].text;
    const next = words[i + 1];
    if (this.fullWidth.has(word)) return !this.closers.has(next.text) && !this.enders.has(next.text);
    return this.enders.has(word) && next.start > words[i].end && this.opens.test(next.text);
  }
}
