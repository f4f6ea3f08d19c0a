/** Where a page gets its data from: a server, or the standalone file that it is in. */

import { elementsOf } from "./elements.ts";
import type {
  CommandJson,
  DiffJson,
  EditCommand,
  EditResult,
  EmbeddedJson,
  Fault,
  OperatorJson,
  ModelsJson,
  NodeJson,
  ProfileJson,
  ScriptJson,
  StatsJson,
  StructureJson,
  TensorJson,
  ValueJson,
} from "./protocol.ts";

export type ModelId = string | number;
/** Called with how far a job is, from 0 to 1 or null, and what it does. */
export type Progress = (part: number | null, note: string | null) => void;

/** What a page may ask. What a source lacks is in `missing`, with the reason that its button shows. */
export interface Source {
  readonly kind: "server" | "file";
  missing(what: Feature): string | null;
  models(): Promise<ModelsJson>;
  structure(model: ModelId): Promise<StructureJson>;
  node(model: ModelId, id: number): Promise<NodeJson>;
  value(model: ModelId, name: string): Promise<ValueJson>;
  /** Elements of a constant, or of a tensor that a run kept. */
  tensor(model: ModelId, name: string, start: number, count: number, run?: string): Promise<TensorJson>;
  stats(model: ModelId, dims: Record<string, number>): Promise<StatsJson>;
  types(model: ModelId, dims: Record<string, number>): Promise<Record<string, string>>;
  profile(model: ModelId, options: Record<string, unknown>, progress: Progress, stop?: AbortSignal): Promise<ProfileJson>;
  run(model: ModelId, request: Record<string, unknown>, progress: Progress, stop?: AbortSignal): Promise<unknown>;
  diff(a: ModelId, b: ModelId): Promise<DiffJson>;
  commands(model: ModelId): Promise<CommandJson[]>;
  operators(domain: string): Promise<string[]>;
  operator(domain: string, name: string): Promise<OperatorJson>;
  faults(model: ModelId): Promise<{ revision: number; faults: Fault[] }>;
  edit(model: ModelId, revision: number, commands: EditCommand[]): Promise<EditResult>;
  undo(model: ModelId, isRedo: boolean): Promise<EditResult>;
  script(model: ModelId): Promise<ScriptJson>;
  save(model: ModelId, path: string | null, overwrite: boolean): Promise<{ path: string }>;
  download(model: ModelId): Promise<Blob>;
  tool(model: ModelId, tool: string, options: Record<string, unknown>, progress: Progress, stop?: AbortSignal): Promise<unknown>;
  sourceCode(model: ModelId, to: string, progress: Progress, stop?: AbortSignal): Promise<unknown>;
  upload(name: string, bytes: Blob): Promise<{ id: ModelId }>;
}

export type Feature = "details" | "values" | "weights" | "stats" | "profile" | "types" | "run" | "diff" | "edit" | "tools" | "source";

/** A failure with what to do about it. */
export class SourceError extends Error {
  readonly where: string;
  readonly remedy: string;
  readonly status: number;

  constructor(message: string, where = "", remedy = "", status = 0) {
    super(message);
    this.where = where;
    this.remedy = remedy;
    this.status = status;
  }
}

const NEEDS_SERVER = "This file holds a picture of the model, not the model. Run `intaglio view MODEL` for this.";

/** The data that a standalone file has in it. */
export class EmbeddedSource implements Source {
  readonly kind = "file";
  private readonly data: EmbeddedJson;

  constructor(data: EmbeddedJson) {
    this.data = data;
  }

  missing(what: Feature): string | null {
    if (what === "details") return Object.keys(this.data.details ?? {}).length ? null : NEEDS_SERVER;
    if (what === "stats") return !this.data.stats ? "The file was written without statistics." : this.data.stats.error ? this.data.stats.error.message : null;
    if (what === "profile") return this.data.profile ? null : "The file was written without a profile: `intaglio view MODEL --html OUT.html --profile`.";
    if (what === "weights") return this.data.weights ? null : "The file was written without weights.";
    return NEEDS_SERVER;
  }

  async models(): Promise<ModelsJson> {
    const { structure, version } = this.data;
    const entry = { id: 0, name: structure.name || structure.file, file: structure.file, format: "", size: 0, editable: false, role: "main" as const };
    return { models: [entry], version: version ?? "", engine: { available: false, reason: NEEDS_SERVER } };
  }

  async structure(): Promise<StructureJson> {
    return this.data.structure;
  }

  async node(_model: ModelId, id: number): Promise<NodeJson> {
    return this.data.details?.[String(id)] ?? refuse(this.missing("details") ?? `The file has no details of node ${id}.`);
  }

  async value(_model: ModelId, name: string): Promise<ValueJson> {
    return refuse(`The file has no details of ${name}.`);
  }

  async tensor(_model: ModelId, name: string, start: number, count: number): Promise<TensorJson> {
    const found = own(this.data.weights, name) ?? refuse(this.missing("weights") ?? `The file was written without the contents of ${name}.`);
    if ("error" in found) return refuse(found.error.message);
    return { ...found, start, values: found.data ? elementsOf(found.data, found.dtype, start, count) : found.values };
  }

  async stats(): Promise<StatsJson> {
    return this.data.stats ?? refuse(this.missing("stats"));
  }

  async profile(): Promise<ProfileJson> {
    return this.data.profile ?? refuse(this.missing("profile"));
  }

  types = noServer;
  run = noServer;
  diff = noServer;
  commands = noServer;
  operators = noServer;
  operator = noServer;
  faults = noServer;
  edit = noServer;
  undo = noServer;
  script = noServer;
  save = noServer;
  download = noServer;
  tool = noServer;
  sourceCode = noServer;
  upload = noServer;
}

/** An entry of an object whose keys a model chose. */
function own<T>(record: Record<string, T> | null | undefined, key: string): T | undefined {
  return record && Object.hasOwn(record, key) ? record[key] : undefined;
}

function refuse(reason: string | null): never {
  throw new SourceError(reason ?? NEEDS_SERVER);
}

async function noServer(): Promise<never> {
  return refuse(NEEDS_SERVER);
}

/** The data in a page's own element, null where that is empty. */
export function embedded(document: Document): EmbeddedJson | null {
  const text = document.getElementById("intaglio-data")?.textContent?.trim();
  return text && text !== "null" ? (JSON.parse(text) as EmbeddedJson) : null;
}
