// Scores of tags to entities: the best sequence under a CRF, the probability of each tag, and what the tags say
// (`boustro.heads.crf`, `boustro.metrics.spans`). C tags, W words.

const TINY = 1e-300;

/** Tag numbers (W,) and their probabilities (W,) of one sentence, from scores (W, C), flat. */
export function decodeTags(scores, { labels, decode, chain, temperature, forms }) {
  if (decode === "runs") return decodeRuns(scores, labels, forms);
  const C = labels.length, W = scores.length / C;
  const tags = decode === "argmax" ? argmaxes(scores, W, C) : bestPath(scores, W, C, chain);
  const warm = Float64Array.from(scores, (s) => s / temperature);
  const shares = decode === "crf" ? posteriors(warm, W, C, chain.over(temperature)) : softmaxes(warm, W, C);
  return { tags, probabilities: tags.map((tag, w) => shares[w * C + tag]) };
}

/** The same of a ridge head, whose scores (W, 2 + C) are of outside, inside and types: neighbours inside are one entity,
 * of the type that the mean of their scores has (`boustro.heads.factored`). `forms` has the tags of each type. */
function decodeRuns(scores, labels, forms) {
  const row = labels.length + 2, W = scores.length / row, tags = [], probabilities = [];
  const inside = softmaxes(Float64Array.from({ length: 2 * W }, (_, i) => scores[(i >> 1) * row + (i & 1)]), W, 2);
  for (let w = 0; w < W; ) {
    let stop = w;
    while (stop < W && inside[2 * stop + 1] > inside[2 * stop]) stop++;
    if (stop === w) {
      tags.push(labels.indexOf("O"));
      probabilities.push(inside[2 * w++]);
      continue;
    }
    const means = forms.map((_, c) => scores.subarray(w * row, stop * row).filter((_, i) => i % row === c + 2));
    const types = softmaxes(Float64Array.from(means, (own) => own.reduce((a, b) => a + b, 0) / own.length), 1, forms.length);
    const [kind] = argmaxes(types, 1, forms.length), [single, first, inner, last] = forms[kind];
    for (let n = w; n < stop; n++) {
      tags.push(stop - w === 1 ? single : n === w ? first : n === stop - 1 ? last : inner);
      probabilities.push(inside[2 * n + 1] * types[kind]);
    }
    w = stop;
  }
  return { tags, probabilities };
}

/** Scores of first tags, of pairs (tag, next tag) and of last tags; -Infinity where not valid. */
export class Chain {
  constructor(starts, transitions, ends) {
    Object.assign(this, { starts, transitions, ends });
  }

  over(temperature) {
    return new Chain(...[this.starts, this.transitions, this.ends].map((part) => part.map((s) => s / temperature)));
  }
}

function argmaxes(scores, W, C) {
  return Array.from({ length: W }, (_, w) => {
    let best = 0;
    for (let c = 1; c < C; c++) if (scores[w * C + c] > scores[w * C + best]) best = c;
    return best;
  });
}

function bestPath(scores, W, C, { starts, transitions, ends }) {
  const pointers = [];
  let reached = starts;
  let best = new Float64Array(C);
  for (let w = 0; w < W; w++) {
    best = best.map((_, c) => reached[c] + scores[w * C + c]);
    if (w + 1 === W) break;
    const pointer = new Int32Array(C), next = new Float64Array(C).fill(-Infinity);
    for (let to = 0; to < C; to++) {
      for (let from = 0; from < C; from++) {
        const value = best[from] + transitions[from * C + to];
        if (value > next[to]) [next[to], pointer[to]] = [value, from];
      }
    }
    pointers.push(pointer);
    reached = next;
  }
  let [tag] = argmaxes(best.map((b, c) => b + ends[c]), 1, C);
  const tags = [tag];
  for (const pointer of pointers.reverse()) tags.push((tag = pointer[tag]));
  return tags.reverse();
}

function posteriors(scores, W, C, { starts, transitions, ends }) {
  const turned = transitions.map((_, i) => transitions[(i % C) * C + Math.floor(i / C)]);
  const ahead = messages(scores, W, C, starts, transitions, false), back = messages(scores, W, C, ends, turned, true);
  return softmaxes(ahead.map((a, i) => a + back[i] - scores[i]), W, C);
}

/** Log of the sums over all paths to a tag at a word, from one end. */
function messages(scores, W, C, edge, transitions, backwards) {
  const result = new Float64Array(W * C), links = transitions.map(Math.exp);
  let reached = edge;
  for (let step = 0; step < W; step++) {
    const w = backwards ? W - 1 - step : step;
    let peak = -Infinity;
    for (let c = 0; c < C; c++) {
      result[w * C + c] = reached[c] + scores[w * C + c];
      peak = Math.max(peak, result[w * C + c]);
    }
    reached = new Float64Array(C).map((_, to) => {
      let sum = 0;
      for (let from = 0; from < C; from++) sum += Math.exp(result[w * C + from] - peak) * links[from * C + to];
      return Math.log(Math.max(sum, TINY)) + peak;
    });
  }
  return result;
}

function softmaxes(scores, W, C) {
  const result = new Float64Array(W * C);
  for (let w = 0; w < W; w++) {
    const own = scores.subarray(w * C, (w + 1) * C), peak = Math.max(...own);
    const shares = own.map((s) => Math.exp(s - peak)), sum = shares.reduce((a, b) => a + b, 0);
    shares.forEach((share, c) => { result[w * C + c] = share / sum; });
  }
  return result;
}

/** {label, start, end} over words, as conlleval reads tags; `bare` where tags are types without a prefix (scheme IO). */
export function readEntities(tags, bare) {
  const found = [];
  let start = -1, previous = "O", label = "";
  [...tags, "O"].forEach((tag, position) => {
    const cut = tag.indexOf("-");
    const [prefix, current] = bare && tag !== "O" ? ["I", tag] : cut < 0 ? [tag, ""] : [tag.slice(0, cut), tag.slice(cut + 1)];
    if (start >= 0 && ("ES".includes(previous) || "BSO".includes(prefix) || label !== current)) {
      found.push({ label, start, end: position });
      start = -1;
    }
    if (prefix !== "O" && ("BS".includes(prefix) || "OES".includes(previous) || label !== current)) start = position;
    [previous, label] = [prefix, current];
  });
  return found;
}
