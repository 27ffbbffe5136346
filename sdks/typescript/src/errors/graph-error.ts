import { HandspanError } from './handspan-error.js';

/** The run failed, or results were refused: `code` is one of the `GRAPH_…` of graph.md 1.3. */
export class GraphError extends HandspanError {
  override name = 'GraphError';
}
