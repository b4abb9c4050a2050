import { spawn } from "node:child_process";
import { once } from "node:events";
import { createInterface } from "node:readline";
import { fileURLToPath } from "node:url";
import { KubeConfig } from "@kubernetes/client-node";

const crds = fileURLToPath(new URL("../../widgets.yaml", import.meta.url));

// start returns the configuration of a client, and a function that ends the server. The
// server also ends when its standard input does: with this process, however this
// process ends.
export async function start() {
  const server = spawn("kube-hyper-mini", ["run", "--until-eof", "--crds", crds], { stdio: ["pipe", "pipe", "inherit"] });
  const exited = once(server, "exit");
  const lines = createInterface({ input: server.stdout });
  const [line] = await Promise.race([
    once(lines, "line"), // export KUBECONFIG=FILE
    exited.then(([code]) => { throw new Error(`the server ended with ${code}`); }),
  ]);
  const config = new KubeConfig();
  config.loadFromFile(line.replace("export KUBECONFIG=", "").replace(/^'|'$/g, "")); // quoted if it has spaces
  const stop = async () => {
    server.stdin.end();
    const [code] = await exited;
    if (code !== 0) throw new Error(`the server ended with ${code}`);
  };
  return { config, stop };
}
