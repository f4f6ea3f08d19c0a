/**
 * Times layouts of the same graphs: the page's own, elkjs, dagre and Graphviz. Chains with skips, seeded.
 *
 *   npm install --prefix build/layout-bench elkjs @dagrejs/dagre     (and: apt install graphviz)
 *   node bench/layout/compare.mjs [nodes ...]                        (Node 24: it reads TypeScript)
 *
 * Prints processor seconds of whole processes. Each layout of each graph runs in one of its own, which is stopped after LIMIT
 * seconds of processor time.
 */

import { execFileSync, spawnSync } from "node:child_process";
import { createRequire } from "node:module";
import { fileURLToPath } from "node:url";

const LIMIT = 40;
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
  const layout = await LAYOUTS[name](graph(nodes));
  await layout();
}

/** Processor seconds of a process and its children; null where it was stopped at LIMIT or failed. */
function seconds(name, nodes) {
  const command = `ulimit -t ${LIMIT}; "$0" "$@" > /dev/null 2>&1; code=$?; times; exit $code`;
  const program = fileURLToPath(import.meta.url);
  const done = spawnSync("bash", ["-c", command, process.execPath, "--stack-size=60000", program, name, String(nodes)], { encoding: "utf8" });
  const parts = [...done.stdout.trim().split("\n").at(-1).matchAll(/(\d+)m([\d.]+)s/g)].map(([, minutes, rest]) => 60 * Number(minutes) + Number(rest));
  const total = parts.reduce((sum, each) => sum + each, 0);
  return done.status === 0 ? total.toFixed(2) : total >= LIMIT - 1 ? `more than ${LIMIT}` : "failed";
}

function all(counts) {
  const names = Object.keys(LAYOUTS);
  console.log(`| nodes | edges | ${names.join(" | ")} |\n|${"---|".repeat(names.length + 2)}`);
  for (const nodes of counts) console.log(`| ${nodes} | ${graph(nodes).edges.length} | ${names.map((name) => seconds(name, nodes)).join(" | ")} |`);
}

const [name, nodes] = process.argv.slice(2);
if (name && name in LAYOUTS) await one(name, Number(nodes));
else all(process.argv.length > 2 ? process.argv.slice(2).map(Number) : [1000, 10000, 40000]);
