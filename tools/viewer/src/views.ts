// A view draws one part of the data for the parameters of its link.
import type { Data } from "./data";
import type { Params } from "./route";

export interface View {
  name: string;
  title: string;
  // Why there is nothing to see; empty: there is.
  missing: (data: Data) => string;
  draw: (data: Data, params: Params) => HTMLElement;
}
