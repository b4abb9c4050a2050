// A tree of objects as a picture.
import { hierarchy, tree as layout } from "d3-hierarchy";
import { health, type Node } from "./owners";
import { hrefOfObject } from "./types";

const WIDTH = 210, HEIGHT = 44, GAP_X = 50, GAP_Y = 14;

export function Tree({ root }: { root: Node }) {
  const top = hierarchy(root, (node) => node.children);
  layout<Node>().nodeSize([HEIGHT + GAP_Y, WIDTH + GAP_X])(top);
  const nodes = top.descendants();
  const first = Math.min(...nodes.map((node) => node.x!)), last = Math.max(...nodes.map((node) => node.x!));
  const width = (top.height + 1) * (WIDTH + GAP_X) - GAP_X + 4, height = last - first + HEIGHT + 4;
  return (
    <div class="tree">
      <svg width={width} height={height} viewBox={`-2 ${first - HEIGHT / 2 - 2} ${width} ${height}`} role="img" aria-label={`owners and dependents, ${nodes.length} objects`}>
        {top.links().map(({ source, target }) => {
          const x = source.y! + WIDTH, middle = (x + target.y!) / 2;
          return <path key={`${target.x} ${target.y}`} class="edge" d={`M${x},${source.x} C${middle},${source.x} ${middle},${target.x} ${target.y},${target.x}`} />;
        })}
        {nodes.map((node) => {
          const { data } = node;
          const box = <g transform={`translate(${node.y},${node.x! - HEIGHT / 2})`} class={`node ${health(data.object)} ${data.self ? "self" : ""} ${data.missing ? "missing" : ""}`}>
            <title>{data.missing ? `${data.missing} does not exist` : `${data.kind} ${data.label}`}</title>
            <rect width={WIDTH} height={HEIGHT} rx="6" /><rect class="state" width="5" height={HEIGHT} rx="2" />
            <text x="14" y="18" class="kind">{shorten(data.kind, 28)}</text><text x="14" y="35">{shorten(data.label, 26)}</text>
          </g>;
          return data.related && !data.self ? <a key={`${node.x} ${node.y}`} href={hrefOfObject(data.related.type, data.related.metadata)}>{box}</a> : box;
        })}
      </svg>
    </div>
  );
}

const shorten = (text: string, length: number) => (text.length > length ? text.slice(0, length - 1) + "…" : text);
