/** The layout in a worker: it keeps the graph, and answers each set of open groups with a picture. */

import type { Boxes } from "./lines.ts";
import { type ClosedSizes, Nest, type Picture } from "./nested.ts";

export type Request = { readonly number: number } & (
  | { readonly kind: "graph"; readonly boxes: Boxes; readonly sizes: ClosedSizes; readonly open: Uint8Array }
  | { readonly kind: "open"; readonly open: Uint8Array }
);

export interface Answer {
  readonly number: number;
  readonly picture?: Picture;
  readonly milliseconds?: number;
  readonly error?: string;
}

/** Lays out graphs one after another; the page uses it directly where no worker starts. */
export class LayoutService {
  private nest: Nest | null = null;

  answer(request: Request): Answer {
    const begin = performance.now();
    try {
      if (request.kind === "graph") this.nest = new Nest(request.boxes, request.sizes);
      if (!this.nest) throw new Error("The layout has no graph yet.");
      const picture = this.nest.picture(request.open);
      return { number: request.number, picture, milliseconds: performance.now() - begin };
    } catch (error) {
      return { number: request.number, error: error instanceof Error ? error.message : String(error) };
    }
  }
}

/** Answer the messages of a page; called where the script finds itself in a worker. */
export function serveLayout(scope: DedicatedWorkerGlobalScope): void {
  const service = new LayoutService();
  scope.onmessage = (event: MessageEvent<Request>) => {
    const answer = service.answer(event.data);
    const picture = answer.picture;
    const moved = picture
      ? [picture.box, picture.depth, picture.isOpen, picture.x, picture.y, picture.width, picture.height, picture.curveValue, picture.curveSource, picture.curveTarget, picture.curveStart, picture.points]
      : [];
    scope.postMessage(answer, moved.map((each) => each.buffer as ArrayBuffer));
  };
}
