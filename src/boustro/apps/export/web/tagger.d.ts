/** An entity of a text: `text.slice(start, end)` is it; the score is a probability. */
export interface Entity { label: string; start: number; end: number; text: string; score: number }

/** A tagger that `boustro export --format module` wrote. */
export interface Tagger {
  /** The labels that it gives. */
  readonly labels: string[];
  /** Its name, and what it was made from. */
  readonly card: Record<string, string>;
  /** The entities of a text, in order; `progress` is told the share that was read, and is awaited. */
  predict(text: string, progress?: (share: number) => unknown): Promise<Entity[]>;
}

/** Opens the bytes of model.bin; `ort` is the module `onnxruntime-web/wasm`. */
export function openTagger(bytes: Uint8Array, ort: unknown): Promise<Tagger>;

/** The same entities with places in code points, as Python counts. */
export function inCodePoints(text: string, entities: Entity[]): Entity[];
