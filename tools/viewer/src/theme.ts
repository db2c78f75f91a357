// Light, dark, or as the system has it.
import { h } from "./dom";

const themes = ["system", "light", "dark"];

export function themeSwitch(redraw: () => void): HTMLElement {
  const select = h("select", { id: "theme", "aria-label": "Theme" }, ...themes.map((name) => h("option", { value: name }, `Theme: ${name}`)));
  const dark = matchMedia("(prefers-color-scheme: dark)");
  const apply = () => {
    const name = select.value === "system" ? (dark.matches ? "dark" : "light") : select.value;
    document.documentElement.dataset.theme = name;
  };
  try {
    const stored = localStorage.getItem("heapsnap-theme");
    if (stored !== null && themes.includes(stored)) select.value = stored;
  } catch { /* storage is off: the choice lasts as long as the page */ }
  apply();
  select.addEventListener("change", () => {
    apply();
    try {
      localStorage.setItem("heapsnap-theme", select.value);
    } catch { /* as above */ }
    redraw();
  });
  dark.addEventListener("change", () => {
    apply();
    redraw();
  });
  return select;
}
