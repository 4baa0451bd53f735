/** Runes everywhere; no preprocessor is needed, Svelte reads TypeScript itself. */
export default { compilerOptions: { runes: true } };
