/**
 * Tools of web pages by WebMCP (`document.modelContext`), both ways: those of the page for our agents, and ours for the
 * browser's own agent. The draft changes often, so nothing else of the SDK knows of it.
 */
export { type OfferedPageTool, offerPageTools, type TakesTools } from './page-tools.js';
export { registerPageTool } from './registering.js';
