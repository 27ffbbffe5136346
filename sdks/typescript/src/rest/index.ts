/** The REST API of a gateway: lists, settings, journal, live updates. Its types are made from the OpenAPI document. */
export { type Answered, type PathOf, RestClient, type Route } from './client.js';
export type { LiveTopic, LiveUpdate } from './live.js';
export type * from './types.js';
