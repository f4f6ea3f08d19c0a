/** Asks the server that sent the page. A server that is away is waited for; nothing that was typed is lost. */

import { type Signal, signal } from "@preact/signals";
import type { CommandJson, DiffJson, EditCommand, EditResult, ErrorJson, Fault, JobJson, ModelsJson, NodeJson, OperatorJson, ProfileJson, ScriptJson, StatsJson, StructureJson, TensorJson, ValueJson } from "./protocol.ts";
import { type ModelId, type Progress, type Source, SourceError } from "./source.ts";

export type Connection = "fine" | "lost" | "refused";

const FIRST_POLL = 100;
const LATER_POLL = 500;
const RETRY = 1200;
const TOKEN = "intaglio-token";

export class ServerSource implements Source {
  readonly kind = "server";
  readonly connection: Signal<Connection> = signal("fine");
  private readonly token: string;

  constructor(token: string) {
    this.token = token;
  }

  missing(): null {
    return null;
  }

  models(): Promise<ModelsJson> {
    return this.get("/models");
  }

  structure(model: ModelId): Promise<StructureJson> {
    return this.get(`${at(model)}/structure`);
  }

  node(model: ModelId, id: number): Promise<NodeJson> {
    return this.get(`${at(model)}/nodes/${id}`);
  }

  value(model: ModelId, name: string): Promise<ValueJson> {
    return this.get(`${at(model)}/values/${encodeURIComponent(name)}`);
  }

  tensor(model: ModelId, name: string, start: number, count: number, run?: string): Promise<TensorJson> {
    const of = run === undefined ? "" : `&run=${encodeURIComponent(run)}`;
    return this.get(`${at(model)}/tensors/${encodeURIComponent(name)}?start=${start}&count=${count}${of}`);
  }

  stats(model: ModelId, dims: Record<string, number>): Promise<StatsJson> {
    const query = Object.entries(dims).map(([name, size]) => `dim=${encodeURIComponent(`${name}=${size}`)}`);
    return this.get(`${at(model)}/stats${query.length ? `?${query.join("&")}` : ""}`);
  }

  async types(model: ModelId, dims: Record<string, number>): Promise<Record<string, string>> {
    return (await this.post<{ types: Record<string, string> }>(`${at(model)}/types`, { dims })).types;
  }

  profile(model: ModelId, options: Record<string, unknown>, progress: Progress, stop?: AbortSignal): Promise<ProfileJson> {
    return this.job(`${at(model)}/profile`, options, progress, stop) as Promise<ProfileJson>;
  }

  run(model: ModelId, request: Record<string, unknown>, progress: Progress, stop?: AbortSignal): Promise<unknown> {
    return this.job(`${at(model)}/run`, request, progress, stop);
  }

  diff(a: ModelId, b: ModelId): Promise<DiffJson> {
    return this.get(`/diff?a=${encodeURIComponent(String(a))}&b=${encodeURIComponent(String(b))}`);
  }

  async commands(model: ModelId): Promise<CommandJson[]> {
    const found = await this.get<CommandJson[] | { commands: CommandJson[] }>(`${at(model)}/commands`);
    return Array.isArray(found) ? found : found.commands;
  }

  operators(domain: string): Promise<string[]> {
    return this.get(`/operators?domain=${encodeURIComponent(domain)}`);
  }

  operator(domain: string, name: string): Promise<OperatorJson> {
    return this.get(`/operators?name=${encodeURIComponent(name)}&domain=${encodeURIComponent(domain)}`);
  }

  faults(model: ModelId): Promise<{ revision: number; faults: Fault[] }> {
    return this.get(`${at(model)}/faults`);
  }

  edit(model: ModelId, revision: number, commands: EditCommand[]): Promise<EditResult> {
    return this.post(`${at(model)}/edit`, { revision, commands });
  }

  undo(model: ModelId, isRedo: boolean): Promise<EditResult> {
    return this.post(`${at(model)}/${isRedo ? "redo" : "undo"}`, {});
  }

  script(model: ModelId): Promise<ScriptJson> {
    return this.get(`${at(model)}/script`);
  }

  save(model: ModelId, path: string | null, overwrite: boolean): Promise<{ path: string }> {
    return this.post(`${at(model)}/save`, { ...(path ? { path } : {}), ...(overwrite ? { overwrite } : {}) });
  }

  async download(model: ModelId): Promise<Blob> {
    return (await this.fetch("GET", `${at(model)}/download`)).blob();
  }

  tool(model: ModelId, tool: string, options: Record<string, unknown>, progress: Progress, stop?: AbortSignal): Promise<unknown> {
    return this.job(`${at(model)}/tools/${encodeURIComponent(tool)}`, { options }, progress, stop);
  }

  async sourceCode(model: ModelId, to: string, progress: Progress, stop?: AbortSignal): Promise<unknown> {
    const answer = await this.get<Record<string, unknown>>(`${at(model)}/source?to=${encodeURIComponent(to)}`);
    return this.finished(answer, progress, stop);
  }

  async upload(name: string, bytes: Blob): Promise<{ id: ModelId }> {
    const response = await this.fetch("POST", "/models", bytes, { "X-Name": encodeURIComponent(name) });
    return response.json() as Promise<{ id: ModelId }>;
  }

  private async job(path: string, body: unknown, progress: Progress, stop?: AbortSignal): Promise<unknown> {
    return this.finished(await this.post<Record<string, unknown>>(path, body), progress, stop);
  }

  /** The result of a job; an answer that is no job is the result. */
  private async finished(answer: Record<string, unknown>, progress: Progress, stop?: AbortSignal): Promise<unknown> {
    const id = (answer.job ?? ("state" in answer ? answer.id : undefined)) as string | number | undefined;
    if (id === undefined) return answer;
    for (let turn = 0; ; turn++) {
      if (stop?.aborted) {
        await this.fetch("DELETE", `/jobs/${id}`).catch(() => undefined);
        throw new SourceError("This was cancelled.");
      }
      const job = await this.get<JobJson>(`/jobs/${encodeURIComponent(String(id))}`);
      progress(job.progress, job.note);
      if (job.state === "done") return typeof job.result === "object" && job.result ? { ...job.result, job: String(id) } : job.result;
      if (job.state === "cancelled") throw new SourceError("This was cancelled.");
      if (job.state === "failed") throw failure(job.error, 500);
      await pause(turn < 20 ? FIRST_POLL : LATER_POLL);
    }
  }

  private async get<T>(path: string): Promise<T> {
    return (await this.fetch("GET", path)).json() as Promise<T>;
  }

  private async post<T>(path: string, body: unknown): Promise<T> {
    const response = await this.fetch("POST", path, JSON.stringify(body), { "Content-Type": "application/json" });
    return response.json() as Promise<T>;
  }

  /** Reading is tried again until the server is back; what changes something is tried once. */
  private async fetch(method: string, path: string, body?: BodyInit, headers: Record<string, string> = {}): Promise<Response> {
    for (;;) {
      let response: Response;
      try {
        response = await fetch(`/api${path}`, { method, body: body ?? null, headers: { ...headers, "X-Intaglio-Token": this.token }, cache: "no-cache" });
      } catch {
        this.connection.value = "lost";
        if (method !== "GET") {
          void this.watch();
          throw new SourceError("The server does not answer. Nothing was changed.", "", "Start `intaglio view` again; this page goes on by itself.");
        }
        await pause(RETRY);
        continue;
      }
      if (response.ok) {
        this.connection.value = "fine";
        return response;
      }
      throw await this.failed(response);
    }
  }

  /** Ask until the server is back. */
  private async watch(): Promise<void> {
    await this.models().catch(() => undefined);
  }

  private async failed(response: Response): Promise<SourceError> {
    const known = (await response.json().catch(() => null)) as { error?: ErrorJson } | null;
    if (response.status === 401 || (response.status === 403 && /token/i.test(known?.error?.message ?? "token"))) this.connection.value = "refused";
    return failure(known?.error, response.status);
  }
}

function failure(error: ErrorJson | undefined, status: number): SourceError {
  return new SourceError(error?.message ?? `The server answered with status ${status}.`, error?.where ?? "", error?.remedy ?? "", status);
}

function at(model: ModelId): string {
  return `/models/${encodeURIComponent(String(model))}`;
}

function pause(milliseconds: number): Promise<void> {
  return new Promise((done) => setTimeout(done, milliseconds));
}

/** Take the token out of the address, keep it for reloads, and return it with what else the address says. */
export function takeToken(location: Location, storage: Storage): { token: string; rest: string } {
  const parameters = new URLSearchParams(location.hash.slice(1));
  const token = parameters.get("token");
  parameters.delete("token");
  if (token) storage.setItem(TOKEN, token);
  return { token: token ?? storage.getItem(TOKEN) ?? "", rest: parameters.toString() };
}
