/**
 * Times layouts of the same graphs: the page's own, elkjs, dagre and Graphviz. Chains with skips, seeded.
 *
 *   npm install --prefix build/layout-bench elkjs @dagrejs/dagre     (and: apt install graphviz)
 *   node bench/layout/compare.mjs [nodes ...]                        (Node 24: it reads TypeScript)
 *
 * Each layout of each graph runs in a process of its own, which is stopped after LIMIT seconds.
 */

import { execFileSync, spawnSync } from "node:child_process";
import { createRequire } from "node:module";
import { fileURLToPath } from "node:url";

const LIMIT = 120;
const root = fileURLToPath(new URL("../../", import.meta.url));
const require = createRequire(`${root}build/layout-bench/`);

function graph(nodes) {
  let state = 12345;
  const random = () => (state = (state * 1103515245 + 12345) & 0x7fffffff) / 0x7fffffff;
  const sizes = [];
  const edges = [];
  for (let node = 0; node < nodes; node++) {
    sizes.push([60 + Math.floor(random() * 100), 24 + Math.floor(random() * 50)]);
    if (node) edges.push([random() < 0.9 ? node - 1 : Math.max(0, node - 1 - Math.floor(random() * 20)), node]);
    if (node > 2 && random() < 0.3) edges.push([Math.max(0, node - 2 - Math.floor(random() * 48)), node]);
  }
  return { sizes, edges };
}

const LAYOUTS = {
  async intaglio({ sizes, edges }) {
    const { Nest } = await import(`${root}src/intaglio/web/ui/src/layout/nested.ts`);
    const parent = Int32Array.from({ length: sizes.length + 1 }, (_, box) => (box ? 0 : -1));
    const of = (part) => Int32Array.from(edges, (edge) => edge[part] + 1);
    const size = (part) => Float64Array.from([0, ...sizes.map((each) => each[part])]);
    const boxes = { parent, lineSource: of(0), lineTarget: of(1), lineValue: of(0) };
    const closed = { width: size(0), height: size(1), title: size(0) };
    return () => new Nest(boxes, closed).picture(new Uint8Array(parent.length));
  },
  async elkjs({ sizes, edges }) {
    const Elk = require("elkjs");
    const input = {
      id: "root",
      layoutOptions: { "elk.algorithm": "layered", "elk.direction": "DOWN" },
      children: sizes.map(([width, height], id) => ({ id: `n${id}`, width, height })),
      edges: edges.map(([a, b], id) => ({ id: `e${id}`, sources: [`n${a}`], targets: [`n${b}`] })),
    };
    return () => new Elk().layout(input);
  },
  async dagre({ sizes, edges }) {
    const dagre = require("@dagrejs/dagre");
    const made = new dagre.graphlib.Graph({ multigraph: true });
    made.setGraph({});
    made.setDefaultEdgeLabel(() => ({}));
    sizes.forEach(([width, height], id) => made.setNode(String(id), { width, height }));
    edges.forEach(([a, b], id) => made.setEdge(String(a), String(b), {}, String(id)));
    return () => dagre.layout(made);
  },
  async graphviz({ sizes, edges }) {
    const lines = sizes.map(([width, height], id) => `n${id} [shape=box fixedsize=true width=${width / 72} height=${height / 72}]`);
    const text = `digraph { ${lines.join("\n")}\n${edges.map(([a, b]) => `n${a} -> n${b}`).join("\n")} }`;
    return () => execFileSync("dot", ["-Tplain"], { input: text, maxBuffer: 1 << 30 });
  },
};

async function one(name, nodes) {
  const input = graph(nodes);
  const layout = await LAYOUTS[name](input);
  const begin = performance.now();
  await layout();
  console.log(JSON.stringify({ edges: input.edges.length, ms: performance.now() - begin }));
}

function all(counts) {
  console.log("| nodes | edges | layout | ms |\n|---|---|---|---|");
  for (const nodes of counts)
    for (const name of Object.keys(LAYOUTS)) {
      const done = spawnSync(process.execPath, ["--stack-size=60000", "--max-old-space-size=8000", fileURLToPath(import.meta.url), name, String(nodes)], { timeout: LIMIT * 1000, encoding: "utf8" });
      const found = done.status === 0 ? JSON.parse(done.stdout) : null;
      const why = done.error?.code === "ETIMEDOUT" ? `stopped after ${LIMIT} s` : "failed";
      console.log(`| ${nodes} | ${found?.edges ?? graph(nodes).edges.length} | ${name} | ${found ? Math.round(found.ms) : why} |`);
    }
}

const [name, nodes] = process.argv.slice(2);
if (name && name in LAYOUTS) await one(name, Number(nodes));
else all(process.argv.length > 2 ? process.argv.slice(2).map(Number) : [1000, 10000, 40000]);
