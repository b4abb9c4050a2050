// Bundles src into dist. The files are named by their content, so that a build
// of the same sources writes the same files.
import { build } from "esbuild";
import { readFile, rm, writeFile, mkdir } from "node:fs/promises";

await rm("dist", { recursive: true, force: true });
await mkdir("dist");
const result = await build({
  entryPoints: { app: "src/main.tsx" },
  outdir: "dist", entryNames: "[name]-[hash]", bundle: true, minify: true, format: "esm", target: "es2022",
  jsx: "automatic", jsxImportSource: "preact", legalComments: "none", charset: "utf8", metafile: true,
});
let page = await readFile("src/index.html", "utf8");
for (const file of Object.keys(result.metafile.outputs)) {
  const name = file.slice("dist/".length);
  page = page.replace(name.endsWith(".css") ? "app.css" : "app.js", name);
}
await writeFile("dist/index.html", page);
