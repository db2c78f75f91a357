// Bundles src/ into one page without data:  node build.mjs [OUTPUT]   (default: dist/page.html)
//
// The policy names the program by its hash, so that a browser runs nothing else that may stand in the page.
import { createHash } from "node:crypto";
import { readFileSync, writeFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";
import { build } from "esbuild";

const folder = dirname(fileURLToPath(import.meta.url));
const options = { bundle: true, minify: true, write: false, legalComments: "none", charset: "utf8", absWorkingDir: folder };

async function bundled(entry, more) {
  const result = await build({ ...options, ...more, entryPoints: [join("src", entry)] });
  return result.outputFiles[0].text.trim();
}

const program = await bundled("main.ts", { format: "iife", target: ["es2022"], loader: { ".css": "empty" } });
const style = await bundled("style.css", {});
if (/<\/script|<!--/i.test(program) || /<\/style/i.test(style)) throw new Error("the bundle would end its own element");

const hash = createHash("sha256").update(program).digest("base64");
const policy = `default-src 'none'; script-src 'sha256-${hash}'; style-src 'unsafe-inline'; img-src data:; base-uri 'none'; form-action 'none'`;
const page = readFileSync(join(folder, "src", "page.html"), "utf8")
  .replace("{{policy}}", () => policy)
  .replace("{{style}}", () => style)
  .replace("{{program}}", () => program);
writeFileSync(process.argv[2] ?? join(folder, "dist", "page.html"), page);
