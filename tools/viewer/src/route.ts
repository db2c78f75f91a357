// The state of the page is its fragment, so that a link opens the same view:  #owners?zoom=0.2&sort=count

export type Params = Record<string, string>;
export interface Route { view: string; params: Params }

export function parseRoute(hash: string): Route {
  const text = hash.replace(/^#/, "");
  const at = text.indexOf("?");
  const params: Params = Object.create(null) as Params;
  if (at >= 0) for (const [name, value] of new URLSearchParams(text.slice(at + 1))) params[name] = value;
  return { view: at >= 0 ? text.slice(0, at) : text, params };
}

export function linkTo(view: string, params: Record<string, string | number | undefined> = {}): string {
  const query = new URLSearchParams();
  for (const [name, value] of Object.entries(params)) {
    if (value !== undefined && value !== "") query.set(name, String(value));
  }
  const text = query.toString();
  return `#${view}${text === "" ? "" : `?${text}`}`;
}

// As a step that the browser's Back undoes.
export function go(view: string, params: Record<string, string | number | undefined> = {}): void {
  const link = linkTo(view, params);
  if (location.hash !== link) location.hash = link;
}

// The same for what the view shows already: it is drawn anew only when the browser comes back to it.
export function step(view: string, params: Record<string, string | number | undefined>): void {
  const link = linkTo(view, params);
  if (location.hash !== link) history.pushState(null, "", link);
}

// In place of the current step, without drawing anew: the view shows it already.
export function note(view: string, params: Record<string, string | number | undefined>): void {
  history.replaceState(null, "", linkTo(view, params));
}
