// The page around a tagger: text in, marked entities out. Texts are only ever set as text, never as HTML.
import { inCodePoints, openTagger } from "./tagger.js";

const at = (id) => document.getElementById(id);
const LARGEST = 2_000_000; // characters that are tagged at once
const FORMULA = /^[=+\-@\t\r]/; // what a spreadsheet would compute
const ROWS = /\.(csv|tsv|xlsx|jsonl|ndjson|parquet)(\.\w+)?$/i; // files of many texts
let tagger, text = "", entities = [], busy = false;

async function unpack(id) {
  const letters = atob(at(id).textContent.trim());
  at(id).remove();
  const packed = new Uint8Array(letters.length);
  for (let i = 0; i < letters.length; i++) packed[i] = letters.charCodeAt(i); // Uint8Array.from is ten times slower
  const stream = new Blob([packed]).stream().pipeThrough(new DecompressionStream("gzip"));
  return new Uint8Array(await new Response(stream).arrayBuffer());
}

function fail(problem) {
  at("problem").textContent = String(problem?.message ?? problem);
  at("problem").hidden = false;
  at("state").textContent = "";
}

async function start() {
  ort.env.wasm.numThreads = 1;
  ort.env.wasm.wasmBinary = (await unpack("runtime")).buffer;
  tagger = await openTagger(await unpack("model"), ort);
  for (const [name, value] of Object.entries(tagger.card)) at("card").append(element("dt", name), element("dd", value));
  at("state").textContent = `Finds: ${tagger.labels.join(", ")}.`;
  at("go").disabled = false;
  if (at("text").value) await tag();
}

async function tag() {
  if (busy || !tagger) return;
  const given = at("text").value.toWellFormed?.() ?? at("text").value;
  if (given.length > LARGEST) return fail(`The text has ${given.length.toLocaleString()} characters, and at most ${LARGEST.toLocaleString()} are tagged at once: give a part of it.`);
  busy = at("go").disabled = true;
  at("problem").hidden = true;
  const began = performance.now();
  try {
    const told = (share) => {
      at("state").textContent = `Reading: ${Math.round(100 * share)}%`;
      return new Promise((done) => setTimeout(done));
    };
    const found = await tagger.predict(given, told);
    [text, entities] = [given, found];
    at("state").textContent = `Finds: ${tagger.labels.join(", ")}. Read ${given.length.toLocaleString()} characters in ${((performance.now() - began) / 1000).toFixed(2)} seconds.`;
    show();
  } catch (problem) {
    fail(problem);
  } finally {
    busy = at("go").disabled = false;
  }
}

const likely = () => entities.filter((entity) => entity.score >= Number(at("least").value));

function element(name, content) {
  const made = document.createElement(name);
  made.textContent = content;
  return made;
}

function show() {
  const shown = likely(), marked = [];
  let done = 0;
  for (const { label, start, end, score } of shown) {
    const mark = element("mark", text.slice(start, end));
    for (const [name, value] of Object.entries(tagger.facts.colours[label])) mark.style.setProperty("--" + name, value);
    mark.title = `${label} ${score.toFixed(2)}`;
    mark.append(element("small", `${label} ${score.toFixed(2)}`));
    marked.push(text.slice(done, start), mark);
    done = end;
  }
  at("marked").replaceChildren(...marked, text.slice(done));
  at("rows").replaceChildren(...shown.map(({ label, start, end, text: own, score }) => {
    const row = document.createElement("tr");
    row.append(...[label, own, start, end, score.toFixed(4)].map((cell) => element("td", cell)));
    return row;
  }));
  at("count").textContent = `${shown.length} ${shown.length === 1 ? "entity" : "entities"}`;
  at("copied").textContent = "";
  at("found").hidden = false;
}

const answered = () => inCodePoints(text, likely()).map((entity) => ({ ...entity, score: Number(entity.score.toPrecision(8)) }));
const asJson = () => JSON.stringify({ text, entities: answered() });

function asCsv() {
  const cell = (value) => {
    const safe = typeof value === "string" && FORMULA.test(value) ? `'${value}` : String(value);
    return /[",\r\n]/.test(safe) ? `"${safe.replaceAll('"', '""')}"` : safe;
  };
  const lines = answered().map(({ label, start, end, text: own, score }) => [label, start, end, own, score].map(cell).join(","));
  return ["label,start,end,text,score", ...lines, ""].join("\r\n");
}

async function copy(content) {
  try {
    await navigator.clipboard.writeText(content);
  } catch { // a page from disk may not have the clipboard
    const area = document.createElement("textarea");
    area.value = content;
    document.body.append(area);
    area.select();
    document.execCommand("copy");
    area.remove();
  }
  at("copied").textContent = "copied";
}

async function take(file) {
  if (!file) return;
  if (ROWS.test(file.name)) return fail(`${file.name} has a text in each row, and this page reads one text: boustro predict answers every row of a table.`);
  const bytes = new Uint8Array(await file.arrayBuffer());
  try {
    at("text").value = new TextDecoder("utf-8", { fatal: true }).decode(bytes);
  } catch {
    return fail(`${file.name} is not text in UTF-8: save it as a text file in UTF-8.`);
  }
  await tag();
}

at("go").onclick = tag;
at("text").onkeydown = (event) => { if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) tag(); };
at("least").oninput = () => { at("said").textContent = Number(at("least").value).toFixed(2); if (!at("found").hidden) show(); };
at("file").onchange = () => take(at("file").files[0]);
at("json").onclick = () => copy(asJson());
at("csv").onclick = () => copy(asCsv());
document.addEventListener("dragover", (event) => { event.preventDefault(); at("text").classList.add("over"); });
document.addEventListener("dragleave", () => at("text").classList.remove("over"));
document.addEventListener("drop", (event) => { event.preventDefault(); at("text").classList.remove("over"); take(event.dataTransfer.files[0]); });
start().catch(fail);
