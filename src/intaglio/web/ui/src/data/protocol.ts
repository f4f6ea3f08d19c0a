/** What the server sends and the standalone file holds: the types of docs/viewing.md. */

export interface StructureJson {
  format: number;
  revision: number;
  name: string;
  file: string;
  about: [string, string][];
  faults: Fault[];
  /** Whether somebody looked for faults yet. */
  checked?: boolean;
  strings: string[];
  graphs: GraphJson[];
  scopes: ScopesJson;
  schema: Record<string, { inputs: string[]; outputs: string[] }>;
}

export interface Fault {
  node: number | null;
  text: string;
}

export interface GraphJson {
  id: number;
  name: number;
  domain?: number;
  kind: "main" | "body" | "function";
  /** The row of this graph in the table of scopes. */
  scope?: number;
  owner: [number, number] | null;
  inputs: number[];
  outputs: number[];
  nodes: {
    id: number[];
    name: number[];
    op: number[];
    domain: number[];
    scope: number[];
    category: number[];
    label: number[];
    inputs: number[][];
    outputs: number[][];
    bodies: Record<string, number[]>;
  };
  values: { name: number[]; type: number[]; kind: number[]; bytes: number[]; constants?: Record<string, number> };
}

export interface ScopesJson {
  parent: number[];
  name: number[];
  graph: number[];
  kind: number[];
  repeats: number[];
}

export interface ModelEntry {
  id: string | number;
  name: string;
  file: string;
  format: string;
  size: number;
  editable: boolean;
  role: string;
  undo?: string | null;
  redo?: string | null;
  saved?: boolean;
  changed_on_disk?: boolean;
  notices?: string[];
}

export interface ModelsJson {
  models: ModelEntry[];
  version: string;
  engine: { available: boolean; target?: string; cores?: number; reason?: string };
}

export interface AttributeJson {
  name: string;
  kind: string;
  value: string | null;
  full?: string;
  default?: string | null;
  doc?: string;
  required?: boolean;
}

export interface PortJson {
  name: string;
  value: string | null;
  type?: string | null;
  doc?: string;
}

export interface NodeJson {
  id: number;
  op: string;
  domain: string;
  since?: number;
  doc?: string;
  description?: string;
  attributes: AttributeJson[];
  inputs: PortJson[];
  outputs: PortJson[];
  origin?: Record<string, string>;
  metadata?: Record<string, string>;
}

export interface ValueJson {
  name: string;
  kind: string;
  type: string | null;
  shape?: (number | string | null)[] | null;
  declared?: string | null;
  inferred?: string | null;
  maker?: number | null;
  readers?: number[];
  bytes?: number;
  elements?: number;
}

export interface TensorJson {
  dtype: string;
  shape: number[];
  statistics?: Record<string, number | string | boolean | string[] | null>;
  histogram?: { edges: number[]; counts: number[] } | null;
  values: (number | string | boolean)[];
  start: number;
  total: number;
  filters?: { width: number; height: number; count: number; png: string };
}

export interface StatsJson {
  dims: Record<string, number>;
  rows: { id: number | null; macs: number | string | null; parameters: number | null; bytes: number | string | null }[];
  total?: Record<string, number | string | null>;
}

export interface ProfileJson {
  rows: { id: number | number[] | null; name: string; us: number; share: number; flops?: number; bytes?: number; limit?: string | number | null; live?: number | null }[];
  total_us: number;
}

export interface DiffJson {
  nodes: {
    added: number[];
    removed: number[];
    changed: { a: number; b: number; what: string[] }[];
    /** Nodes that are the same, and removed ones with the nodes that stand for them. */
    pairs?: [number, number][];
    became?: [number, number][];
  };
  weights: unknown[];
  interface: unknown[];
}

export interface ParameterJson {
  name: string;
  kind: string;
  /** The type in Python. */
  type?: string;
  required: boolean;
  default?: unknown;
  doc?: string;
  choices?: string[];
}

export interface CommandJson {
  name: string;
  doc: string;
  parameters: ParameterJson[];
}

/** Edits as a Python script, with long arrays as an .npz file in base64. */
export interface ScriptJson {
  name: string;
  text: string;
  arrays: string | null;
}

/** The schema of an operator. */
export interface OperatorJson {
  name: string;
  doc?: string;
  inputs: { name: string; doc?: string; description?: string; option?: unknown }[];
  outputs: { name: string; doc?: string; description?: string; option?: unknown }[];
  attributes: { name: string; kind?: unknown; type?: unknown; doc?: string; description?: string; required?: boolean; default?: unknown }[] | Record<string, unknown>;
}

export interface EditCommand {
  name: string;
  arguments: Record<string, unknown>;
}

export interface EditResult {
  revision: number;
  faults: Fault[];
  changed: boolean;
  structure?: StructureJson;
  undo: string | null;
  redo: string | null;
  selection?: number[];
}

export interface JobJson {
  state: "waiting" | "running" | "done" | "failed" | "cancelled";
  progress: number | null;
  note: string | null;
  result?: unknown;
  error?: ErrorJson;
}

export interface ErrorJson {
  message: string;
  where?: string | null;
  remedy?: string | null;
}

/** The contents of the element `intaglio-data` in a standalone file. */
export interface EmbeddedJson {
  version?: string;
  structure: StructureJson;
  /** The panels of nodes by their ids. */
  details?: Record<string, NodeJson>;
  stats?: (StatsJson & { error?: ErrorJson }) | null;
  profile?: ProfileJson | null;
  /** Tensors with all their elements in base64. */
  weights?: Record<string, (TensorJson & { data?: string }) | { error: ErrorJson }> | null;
}
