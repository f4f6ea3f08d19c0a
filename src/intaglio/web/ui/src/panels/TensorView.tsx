/** What is in a tensor: statistics, a histogram, filters as pictures, and the numbers. */

import { useSignal } from "@preact/signals";
import type { Page } from "../app/actions.ts";
import type { TensorJson } from "../data/protocol.ts";
import { useRemote } from "./remote.ts";

const AT_ONCE = 200;

export function TensorView({ page, name, run }: { page: Page; name: string; run?: string | undefined }) {
  const { store } = page;
  const start = useSignal(0);
  const missing = store.source.missing("weights");
  const remote = useRemote(
    () => (missing ? Promise.resolve(null) : store.source.tensor(store.modelId.value, name, start.value, AT_ONCE, run)),
    [store.modelId.value, name, start.value, store.revision.value, run],
  );
  if (missing) return <p class="quiet">{missing}</p>;
  if (remote.state === "waiting") return <p class="quiet">Reading the numbers…</p>;
  if (remote.state === "failed") return <p class="quiet">{remote.reason}</p>;
  return remote.value && <Tensor tensor={remote.value} go={(place) => (start.value = place)} />;
}

/** A tensor that is there. */
export function Tensor({ tensor, go }: { tensor: TensorJson; go?: (start: number) => void }) {
  return (
    <>
      {tensor.statistics && <Statistics statistics={tensor.statistics} />}
      {tensor.histogram && tensor.histogram.counts.length > 1 && <Histogram {...tensor.histogram} />}
      {tensor.filters && <Filters {...tensor.filters} />}
      <Numbers tensor={tensor} go={go} />
    </>
  );
}

function Statistics({ statistics }: { statistics: NonNullable<TensorJson["statistics"]> }) {
  const rows = Object.entries(statistics).filter(([name, value]) => (typeof value === "number" || typeof value === "string") && !(value === 0 && /nan|inf/.test(name)));
  const advice = Array.isArray(statistics.advice) ? statistics.advice : [];
  return (
    <section>
      <h3>Statistics</h3>
      <dl class="grid">
        {rows.map(([name, value]) => (
          <div key={name}>
            <dt>{name}</dt>
            <dd title={String(value)}>{number(value as number | string)}</dd>
          </div>
        ))}
      </dl>
      {advice.map((each) => (
        <p key={each} class="quiet">
          {each}
        </p>
      ))}
    </section>
  );
}

/** A number in at most seven figures. */
export function number(value: number | string | boolean): string {
  if (typeof value !== "number") return String(value);
  return Number.isInteger(value) && Math.abs(value) < 1e12 ? value.toLocaleString("en") : String(Number(value.toPrecision(6)));
}

export function Histogram({ edges, counts }: { edges: readonly number[]; counts: readonly number[] }) {
  const most = Math.max(...counts, 1);
  const width = 260 / counts.length;
  return (
    <figure class="histogram">
      <svg viewBox="0 0 260 80" role="img" aria-label={`Histogram from ${number(edges[0] ?? 0)} to ${number(edges.at(-1) ?? 0)}`}>
        {counts.map((count, place) => (
          <rect key={place} x={place * width + 0.4} width={Math.max(0.5, width - 0.8)} y={78 - (76 * count) / most} height={count ? Math.max(1, (76 * count) / most) : 0}>
            <title>{`${number(edges[place] ?? 0)} … ${number(edges[place + 1] ?? 0)}: ${count.toLocaleString("en")}`}</title>
          </rect>
        ))}
      </svg>
      <figcaption class="quiet">
        <span>{number(edges[0] ?? 0)}</span>
        <span>{number(edges.at(-1) ?? 0)}</span>
      </figcaption>
    </figure>
  );
}

function Filters({ width, height, count, png }: { width: number; height: number; count: number; png: string }) {
  return (
    <section>
      <h3>Filters</h3>
      <img class="filters" alt={`${count} filters of ${width} by ${height}`} src={`data:image/png;base64,${png.replace(/[^A-Za-z0-9+/=]/g, "")}`} />
    </section>
  );
}

function Numbers({ tensor, go }: { tensor: TensorJson; go?: ((start: number) => void) | undefined }) {
  const columns = Math.min(8, Math.max(1, tensor.shape.at(-1) ?? 1));
  const end = tensor.start + tensor.values.length;
  const rows: (number | string | boolean)[][] = [];
  for (let at = 0; at < tensor.values.length; at += columns) rows.push(tensor.values.slice(at, at + columns));
  if (!tensor.values.length) return <p class="quiet">It has no elements.</p>;
  return (
    <section>
      <h3>Values</h3>
      <div class="numbers" tabIndex={0} role="region" aria-label="Values">
        <table>
          <tbody>
            {rows.map((row, place) => (
              <tr key={place}>
                <th scope="row">{placeOf(tensor.start + place * columns, tensor.shape)}</th>
                {row.map((value, column) => (
                  <td key={column} title={String(value)}>
                    {number(value)}
                  </td>
                ))}
              </tr>
            ))}
          </tbody>
        </table>
      </div>
      {go && tensor.total > tensor.values.length && (
        <p class="pages">
          <button disabled={tensor.start === 0} onClick={() => go(Math.max(0, tensor.start - AT_ONCE))}>
            before
          </button>
          <span class="quiet">
            {tensor.start.toLocaleString("en")}–{end.toLocaleString("en")} of {tensor.total.toLocaleString("en")}
          </span>
          <button disabled={end >= tensor.total} onClick={() => go(end)}>
            after
          </button>
        </p>
      )}
    </section>
  );
}

/** The indices of an element by its place in memory: 1, 0, 12. */
export function placeOf(element: number, shape: readonly number[]): string {
  const found: number[] = [];
  let left = element;
  for (let axis = shape.length - 1; axis >= 0; axis--) {
    const size = Math.max(1, shape[axis]!);
    found.unshift(left % size);
    left = Math.floor(left / size);
  }
  return found.join(", ");
}
