// Figures from the server's metrics: rates between two samples.

/** Calls of a webhook, and those that it did not answer. */
export interface Calls { total: number; failed: number }
/** Counters at a moment, in seconds. Conversions are by the name of the CRD. */
export interface Sample { time: number; requests: number; errors: number; buckets: Map<number, number>; webhooks: Map<string, Calls>; conversions: Map<string, Calls> }
export interface Point { time: number; requests: number; errors: number; latency: number | null }

/** Reads the counters of requests from Prometheus' text format. Watches and other long requests are left out. */
export function parse(text: string, time: number): Sample {
  const sample: Sample = { time, requests: 0, errors: 0, buckets: new Map(), webhooks: new Map(), conversions: new Map() };
  const value = (line: string) => Number(line.slice(line.lastIndexOf(" ")));
  const callsIn = (known: Map<string, Calls>, name = "") => {
    if (!known.has(name)) known.set(name, { total: 0, failed: 0 });
    return known.get(name)!;
  };
  const calls = (line: string) => callsIn(sample.webhooks, /[{,]name="([^"]*)"/.exec(line)?.[1]);
  for (const line of text.split("\n")) {
    if (line.startsWith("apiserver_request_total{")) {
      if (line.includes('verb="WATCH"') || line.includes('verb="CONNECT"')) continue;
      sample.requests += value(line);
      if (/code="5\d\d"/.test(line)) sample.errors += value(line);
    } else if (line.startsWith("apiserver_request_duration_seconds_bucket{")) {
      // OpenAPI documents take as long as they take to build, and our server holds its own requests for them until they change.
      if (line.includes('verb="WATCH"') || line.includes('verb="CONNECT"') || line.includes('subresource="openapi/')) continue;
      const bound = /le="([^"]+)"/.exec(line)![1];
      const le = bound === "+Inf" ? Infinity : Number(bound);
      sample.buckets.set(le, (sample.buckets.get(le) ?? 0) + value(line));
    } else if (line.startsWith("apiserver_admission_webhook_request_total{")) calls(line).total += value(line);
    else if (line.startsWith("apiserver_admission_webhook_fail_open_count{")) calls(line).failed += value(line);
    else if (line.startsWith("apiserver_admission_webhook_rejection_count{") && line.includes('error_type="calling_webhook_error"')) calls(line).failed += value(line);
    else if (line.startsWith("apiserver_crd_conversion_webhook_duration_seconds_count{")) {
      const made = callsIn(sample.conversions, /[{,]crd_name="([^"]*)"/.exec(line)?.[1]);
      made.total += value(line);
      if (line.includes('succeeded="false"')) made.failed += value(line);
    }
  }
  return sample;
}

/** Rates between two samples; none if the server was started again in between. */
export function compare(before: Sample, after: Sample): Point | undefined {
  const seconds = after.time - before.time;
  if (seconds <= 0 || after.requests < before.requests) return undefined;
  return { time: after.time, requests: (after.requests - before.requests) / seconds, errors: Math.max(0, after.errors - before.errors) / seconds, latency: quantile(0.99, before, after) };
}

/** The bound that a part of the requests stays below, in milliseconds. */
function quantile(part: number, before: Sample, after: Sample): number | null {
  const bounds = [...after.buckets.keys()].sort((a, b) => a - b);
  const grown = bounds.map((le) => after.buckets.get(le)! - (before.buckets.get(le) ?? 0));
  const total = grown[grown.length - 1] ?? 0;
  if (total <= 0) return null;
  const wanted = part * total;
  const i = grown.findIndex((n) => n >= wanted);
  if (i < 0) return null;
  const low = i === 0 ? 0 : bounds[i - 1], high = bounds[i] === Infinity ? low : bounds[i], below = i === 0 ? 0 : grown[i - 1];
  return 1000 * (low + ((high - low) * (wanted - below)) / Math.max(1, grown[i] - below));
}
