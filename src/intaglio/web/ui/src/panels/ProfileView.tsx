/** Where the time of a run went, kernel by kernel, and how much memory was in use meanwhile. */

import type { Page } from "../app/actions.ts";
import { bytes, microseconds } from "../app/overlays.ts";

export function ProfileView({ page }: { page: Page }) {
  const { store } = page;
  const profile = store.overlays.profile.value;
  if (!profile?.rows.length) return null;
  const hottest = [...profile.rows].sort((a, b) => b.us - a.us).slice(0, 25);
  const select = (id: number | number[] | null) => {
    const first = Array.isArray(id) ? id[0] : id;
    if (first !== null && first !== undefined) void store.selectNode(first, "centre");
  };
  return (
    <section>
      <h3>Time of a run · {microseconds(profile.total_us)}</h3>
      <Memory rows={profile.rows.map((row) => row.live ?? 0)} />
      <ul class="bars">
        {hottest.map((row, place) => (
          <li key={place}>
            <meter min={0} max={hottest[0]!.us || 1} value={row.us} aria-label={`${row.name}: ${microseconds(row.us)}`} />
            <button class="link one-line" title={row.name} onClick={() => select(row.id)}>
              {row.name}
            </button>
            <span class="quiet">
              {microseconds(row.us)}
              {typeof row.limit === "number" ? ` · ${Math.round(100 * row.limit)} %` : ""}
            </span>
          </li>
        ))}
      </ul>
      <p class="hint quiet">The last number is the share of the machine's limit that a kernel reaches.</p>
    </section>
  );
}

/** Memory in use from the first kernel to the last, as steps. */
function Memory({ rows }: { rows: readonly number[] }) {
  const most = Math.max(...rows);
  if (!most) return null;
  const path = rows.map((live, place) => `${place ? "L" : "M"}${((260 * place) / rows.length).toFixed(1)} ${(58 - (54 * live) / most).toFixed(1)}H${((260 * (place + 1)) / rows.length).toFixed(1)}`).join("");
  return (
    <figure class="histogram">
      <svg viewBox="0 0 260 60" role="img" aria-label={`Memory in use, at most ${bytes(most)}`}>
        <path class="memory" d={`${path}V60H0Z`} />
      </svg>
      <figcaption class="quiet">
        <span>memory from first kernel to last</span>
        <span>at most {bytes(most)}</span>
      </figcaption>
    </figure>
  );
}
