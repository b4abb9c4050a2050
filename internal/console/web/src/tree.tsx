// A tree of objects as a picture.
import { hierarchy, tree as layout } from "d3-hierarchy";
import { useEffect, useRef } from "preact/hooks";
import { stateOf } from "./conditions";
import type { Node } from "./owners";
import { hrefOfObject } from "./types";

const WIDTH = 230, HEIGHT = 46, GAP_X = 46, GAP_Y = 12;

export function Tree({ root }: { root: Node }) {
  const parent = useRef<HTMLDivElement>(null);
  const top = hierarchy(root, (node) => node.children);
  layout<Node>().nodeSize([HEIGHT + GAP_Y, WIDTH + GAP_X]).separation(() => 1)(top);
  const nodes = top.descendants();
  const first = Math.min(...nodes.map((node) => node.x!)), last = Math.max(...nodes.map((node) => node.x!));
  const width = (top.height + 1) * (WIDTH + GAP_X) - GAP_X + 4, height = last - first + HEIGHT + 4;
  // The object itself is in view at first, however large the tree is.
  useEffect(() => {
    const self = nodes.find((node) => node.data.self), box = parent.current;
    if (!self || !box) return;
    box.scrollLeft = self.y! + WIDTH / 2 - box.clientWidth / 2;
    box.scrollTop = self.x! - first + HEIGHT / 2 - box.clientHeight / 2;
  }, []);
  return (
    <div class="tree" ref={parent}>
      <svg width={width} height={height} viewBox={`-2 ${first - HEIGHT / 2 - 2} ${width} ${height}`} role="group" aria-label={`owners and dependents, ${nodes.length} objects`}>
        {top.links().map(({ source, target }) => {
          const x = source.y! + WIDTH, middle = (x + target.y!) / 2;
          return <path key={`${target.x} ${target.y}`} class={`edge ${target.data.referred ? "referred" : ""}`} d={`M${x},${source.x} C${middle},${source.x} ${middle},${target.x} ${target.y},${target.x}`} />;
        })}
        {nodes.map((node) => <Box key={`${node.x} ${node.y}`} node={node.data} x={node.y!} y={node.x! - HEIGHT / 2} />)}
      </svg>
    </div>
  );
}

function Box({ node, x, y }: { node: Node; x: number; y: number }) {
  const { tone, word } = stateOf(node.object);
  const namespace = node.related?.metadata.namespace;
  const title = node.missing ? `${node.missing} does not exist` : node.more ? `${node.more} more objects that are not drawn` : `${node.kind} ${namespace ? namespace + "/" : ""}${node.label}${word ? ": " + word : ""}`;
  const state = node.missing ? "missing" : word;
  const box = <g transform={`translate(${x},${y})`} class={`node ${tone} ${node.self ? "self" : ""} ${node.missing || node.more ? "missing" : ""}`}>
    <title>{title}</title>
    <rect width={WIDTH} height={HEIGHT} rx="7" />
    {!node.more && <circle class="state" cx="14" cy="15" r="4" />}
    <text x={node.more ? 14 : 25} y="19" class="kind">{shorten(node.kind, state ? 22 : 32)}</text>
    {state && <text x={WIDTH - 12} y="19" text-anchor="end" class="word">{shorten(state, 14)}</text>}
    <text x="14" y={node.more ? 28 : 37}>{shorten(node.label, 31)}</text>
  </g>;
  return node.related && !node.self ? <a aria-label={title} href={hrefOfObject(node.related.type, node.related.metadata) + "?tab=tree"}>{box}</a> : box;
}

/** Leaves out the middle: names often differ at their ends. */
const shorten = (text: string, length: number) => (text.length > length ? text.slice(0, Math.ceil(length * 0.6) - 1) + "…" + text.slice(-Math.floor(length * 0.4)) : text);
