// A tagger that Boustro exported, in a browser or in Node: text in, entities out.
//
//     import * as ort from "onnxruntime-web/wasm";
//     import { openTagger } from "./tagger.js";
//     const tagger = await openTagger(new Uint8Array(await (await fetch("model.bin")).arrayBuffer()), ort);
//     const entities = await tagger.predict("Ada Brandt flew to Port Lisse.");   // [{label, start, end, text, score}]
//
// Places are UTF-16 units, so `text.slice(start, end)` is the entity; `inCodePoints` counts as Python does.
import { Chain, decodeTags, readEntities } from "./decode.js";
import { Memory, poolMentions } from "./memory.js";
import { Tokenizer } from "./pieces.js";
import { Part } from "./reading.js";
import { Splitter } from "./words.js";

const MAGIC = "BOUSTRO1", FORMAT = 1;
const ARRAYS = { uint8: Uint8Array, float32: Float32Array, float64: Float64Array };

/** The tagger of a file's bytes (model.bin); `ort` is onnxruntime-web. */
export async function openTagger(bytes, ort) {
  const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
  if (bytes.length < 12 || new TextDecoder().decode(bytes.subarray(0, 8)) !== MAGIC) {
    throw new Error("this is no model.bin of boustro export, or it is damaged; export it again");
  }
  const begin = 12 + view.getUint32(8, true);
  const facts = JSON.parse(new TextDecoder().decode(bytes.subarray(12, begin)));
  if (facts.format !== FORMAT) throw new Error(`model.bin has format ${facts.format}, and tagger.js reads ${FORMAT}; export both again`);
  const blob = ({ offset, bytes: size }) => {
    if (begin + offset + size > bytes.length) throw new Error("model.bin ends too early; export it again");
    return bytes.slice(begin + offset, begin + offset + size);
  };
  const array = (name) => {
    const { dtype } = facts.arrays[name], own = blob(facts.arrays[name]);
    return dtype === "float16" ? fromHalves(new Uint16Array(own.buffer)) : new ARRAYS[dtype](own.buffer);
  };
  const session = (name) => ort.InferenceSession.create(blob(facts.graphs[name]), { executionProviders: ["wasm"] });
  const tokenizers = facts.tokenizers.map((own) => new Tokenizer(own));
  const parts = [];
  for (const [n, own] of facts.parts.entries()) {
    parts.push(new Part({ ...own, spacing: facts.spacing }, tokenizers[own.tokenizer], await session(own.graph), ort.Tensor, array(`empty.${n}`)));
  }
  const memories = facts.memories.map(({ words, counts, means }) => new Memory({
    words, counts: array(counts),
    means: means.map((own) => Object.fromEntries(Object.entries(own).map(([key, name]) => [key, array(name)]))),
  }, facts.folds));
  const chain = ["argmax", "runs"].includes(facts.decode) ? null : new Chain(...["starts", "transitions", "ends"].map((name) => array(`chain.${name}`)));
  return new Tagger({ ...facts, chain }, parts, memories, await session("head"), ort.Tensor);
}

class Tagger {
  constructor(facts, parts, memories, head, Tensor) {
    Object.assign(this, { facts, parts, memories, head, Tensor });
    this.splitter = new Splitter(facts.words);
  }

  /** The labels that it gives. */
  get labels() {
    return this.facts.types;
  }

  /** What the export says about the tagger: its name, when and from what it was made. */
  get card() {
    return this.facts.card;
  }

  /** The entities of a text; `progress(done)` is told the share of the pieces that were read, and may be awaited. */
  async predict(text, progress = () => {}) {
    const sentences = this.splitter.split(text);
    for (const word of sentences.flat()) word.text = word.text.normalize("NFC"); // as `Sentence.composed`
    if (!sentences.length) return [];
    const streams = await this.read(sentences, progress);
    const count = sentences.reduce((sum, words) => sum + words.length, 0);
    const given = { lengths: new this.Tensor("int64", BigInt64Array.from(sentences, (s) => BigInt(s.length)), [sentences.length]) };
    streams.forEach(({ data, rows }, n) => {
      given[`stream_${n}`] = new this.Tensor("float32", data, [count, rows, data.length / count / rows]);
    });
    const outputs = await this.head.run(Object.fromEntries(this.head.inputNames.map((name) => [name, given[name]])));
    const scores = outputs[this.head.outputNames[0]].data, C = scores.length / count;
    let before = 0;
    return sentences.flatMap((words) => {
      const own = scores.subarray(before * C, (before += words.length) * C);
      return this.entities(text, words, decodeTags(own, this.facts));
    });
  }

  /** What the head reads: a stream for each LM, and then one for each with pooled mentions. */
  async read(sentences, progress) {
    const texts = this.facts.context === "document" ? [sentences.flat()] : sentences;
    const pooled = this.facts.within === "document" ? [sentences.flat()] : sentences;
    const read = [];
    let done = 0;
    for (const part of this.parts) {
      const share = 1 / this.parts.length, pieces = texts.flat().length;
      read.push({ rows: part.rows, data: await part.read(texts, (n) => progress(Math.min(1, (done += (n * share) / pieces)))) });
    }
    if (!this.facts.pooled) return read;
    return [...read, ...read.map(({ rows, data }, n) => ({ rows: 1, data: poolMentions(pooled, data, rows, n, this.memories) }))];
  }

  entities(text, words, { tags, probabilities }) {
    const named = tags.map((tag) => this.facts.labels[tag]);
    return readEntities(named, this.facts.bare).map(({ label, start, end }) => {
      const logs = probabilities.slice(start, end).map((p) => Math.log(Math.max(p, 1e-12)));
      const place = [words[start].start, words[end - 1].end];
      const score = Math.exp(logs.reduce((a, b) => a + b, 0) / logs.length);
      return { label, start: place[0], end: place[1], text: text.slice(...place), score };
    });
  }
}

/** The same entities with places in code points, as Python and `boustro predict` count. */
export function inCodePoints(text, entities) {
  const place = new Uint32Array(text.length + 1);
  let count = 0;
  for (let unit = 0; unit < text.length; ) {
    const size = text.codePointAt(unit) > 0xffff ? 2 : 1;
    place.fill(count++, unit, unit + size);
    unit += size;
  }
  place[text.length] = count;
  return entities.map((entity) => ({ ...entity, start: place[entity.start], end: place[entity.end] }));
}

/** Half-precision numbers, given as their bits. */
function fromHalves(bits) {
  return Float32Array.from(bits, (h) => {
    const sign = h & 0x8000 ? -1 : 1, exponent = (h >> 10) & 31, fraction = h & 1023;
    if (exponent === 31) return fraction ? NaN : sign * Infinity;
    return sign * (exponent ? 2 ** (exponent - 15) * (1 + fraction / 1024) : 2 ** -14 * (fraction / 1024));
  });
}
