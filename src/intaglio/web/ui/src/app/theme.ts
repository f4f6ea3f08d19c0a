/** Dark or light: as the system says until a person chooses. */

import { computed, effect, type ReadonlySignal, type Signal, signal } from "@preact/signals";
import { DARK, LIGHT, type Palette } from "../theme/palette.ts";

export type Choice = "system" | "light" | "dark";
const KEY = "intaglio-theme";

export class Theme {
  readonly choice: Signal<Choice>;
  readonly palette: ReadonlySignal<Palette>;
  private readonly systemIsDark: Signal<boolean>;

  constructor() {
    const query = matchMedia("(prefers-color-scheme: dark)");
    this.systemIsDark = signal(query.matches);
    query.addEventListener("change", (event) => (this.systemIsDark.value = event.matches));
    this.choice = signal(stored());
    this.palette = computed(() => ((this.choice.value === "system" ? this.systemIsDark.value : this.choice.value === "dark") ? DARK : LIGHT));
    effect(() => {
      document.documentElement.dataset.theme = this.palette.value.isDark ? "dark" : "light";
    });
  }

  toggle(): void {
    this.choice.value = this.palette.value.isDark ? "light" : "dark";
    try {
      localStorage.setItem(KEY, this.choice.value);
    } catch {
      return; // a sandboxed frame stores nothing
    }
  }
}

function stored(): Choice {
  try {
    const text = localStorage.getItem(KEY);
    return text === "dark" || text === "light" ? text : "system";
  } catch {
    return "system";
  }
}
