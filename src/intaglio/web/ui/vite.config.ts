/** Builds one file: the page with its style and script inside. The script is also the layout worker. */

import { mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { defineConfig, type Plugin } from "vite";

const here = new URL(".", import.meta.url).pathname;
const assets = new URL("../assets/", import.meta.url).pathname;

function onePage(): Plugin {
  return {
    name: "one-page",
    generateBundle(_, bundle) {
      let script = "";
      for (const [name, each] of Object.entries(bundle)) {
        if (each.type === "chunk") script += each.code;
        delete bundle[name];
      }
      const style = readFileSync(`${here}src/theme/style.css`, "utf8").replace(/\n\s*/g, "");
      const safe = script.trim().replaceAll("</script", "<\\/script").replaceAll("<!--", "<\\!--");
      const page = readFileSync(`${here}index.html`, "utf8")
        .replace("/*style*/", () => style)
        .replace("/*script*/", () => safe);
      mkdirSync(assets, { recursive: true });
      writeFileSync(`${assets}index.html`, page);
    },
  };
}

export default defineConfig({
  root: here,
  publicDir: false,
  oxc: { jsx: { runtime: "automatic", importSource: "preact" } },
  build: {
    write: false,
    target: "es2022",
    cssCodeSplit: false,
    modulePreload: false,
    reportCompressedSize: false,
    lib: { entry: `${here}src/app/main.tsx`, formats: ["iife"], name: "intaglioPage", fileName: () => "page.js" },
  },
  define: { "process.env.NODE_ENV": '"production"' },
  plugins: [onePage()],
});
