/** The page's side of the layout: one question at a time, later ones replace those that wait. */

import type { Boxes } from "./lines.ts";
import type { ClosedSizes, Picture } from "./nested.ts";
import { type Answer, LayoutService, type Request } from "./worker.ts";

export interface Answered {
  readonly picture: Picture;
  readonly milliseconds: number;
}

type Question = (Omit<Extract<Request, { kind: "graph" }>, "number">) | (Omit<Extract<Request, { kind: "open" }>, "number">);

export class LayoutClient {
  private worker: Worker | null = null;
  private readonly service = new LayoutService();
  private number = 0;
  private readonly waiting = new Map<number, { done: (answer: Answered) => void; failed: (error: Error) => void }>();

  /** `script` is the text of this very page's script, which is a layout where there is no document. */
  constructor(script: string | null) {
    if (script) this.start(script);
  }

  private start(script: string): void {
    try {
      const address = URL.createObjectURL(new Blob([script], { type: "text/javascript" }));
      this.worker = new Worker(address);
      this.worker.onmessage = (event: MessageEvent<Answer>) => this.receive(event.data);
      this.worker.onerror = () => this.withoutWorker();
    } catch {
      this.worker = null;
    }
  }

  /** Some frames forbid workers; then the page lays out itself. */
  private withoutWorker(): void {
    this.worker?.terminate();
    this.worker = null;
    for (const { failed } of this.waiting.values()) failed(new Error("The layout worker stopped."));
    this.waiting.clear();
  }

  private receive(answer: Answer): void {
    const waiting = this.waiting.get(answer.number);
    this.waiting.delete(answer.number);
    if (answer.picture) waiting?.done({ picture: answer.picture, milliseconds: answer.milliseconds ?? 0 });
    else waiting?.failed(new Error(answer.error ?? "The layout failed."));
  }

  /** Lay out a graph anew. */
  async graph(boxes: Boxes, sizes: ClosedSizes, open: Uint8Array): Promise<Answered> {
    const { parent, lineSource, lineTarget, lineValue } = boxes;
    const question: Question = { kind: "graph", boxes: { parent, lineSource, lineTarget, lineValue }, sizes, open };
    try {
      return await this.ask(question);
    } catch (error) {
      if (this.worker) throw error;
      return this.ask(question);
    }
  }

  /** The picture of the same graph with other groups open. */
  open(open: Uint8Array): Promise<Answered> {
    return this.ask({ kind: "open", open });
  }

  private ask(question: Question): Promise<Answered> {
    const request = { ...question, number: ++this.number } as Request;
    return new Promise((done, failed) => {
      this.waiting.set(request.number, { done, failed });
      if (this.worker) this.worker.postMessage(request);
      else this.receive(this.service.answer(request));
    });
  }
}
