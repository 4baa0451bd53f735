/** Runes everywhere. No preprocessor, because Svelte compiles TypeScript itself. */
export default { compilerOptions: { runes: true } };
