// Values as a person reads them.

/** The time since a moment, as kubectl prints it, or until then: "5m", "in 5m". With `ago`, "5m ago". */
export function age(time?: string, ago = false): string {
  if (!time) return "";
  const then = Date.parse(time);
  if (Number.isNaN(then)) return time;
  const seconds = Math.round((Date.now() - then) / 1000);
  return seconds < 0 ? "in " + span(-seconds) : span(seconds) + (ago ? " ago" : "");
}

export function span(seconds: number): string {
  if (seconds < 120) return `${Math.round(seconds)}s`;
  if (seconds < 7200) return `${Math.floor(seconds / 60)}m`;
  if (seconds < 48 * 3600) return `${Math.floor(seconds / 3600)}h`;
  const days = Math.floor(seconds / 86400);
  return days < 730 ? `${days}d` : `${Math.floor(days / 365)}y`;
}

/** A size as `kube-hyper-mini status` prints it. */
export function bytes(n: number): string {
  const units = ["B", "KiB", "MiB", "GiB", "TiB"];
  let unit = 0;
  while (n >= 1024 && unit < units.length - 1) { n /= 1024; unit++; }
  return `${n >= 10 || unit === 0 ? Math.round(n) : n.toFixed(1)} ${units[unit]}`;
}

export const number = (n: number) => n.toLocaleString("en-US");
export const when = (time?: string) => (time && !Number.isNaN(Date.parse(time)) ? new Date(time).toLocaleString() : "");
