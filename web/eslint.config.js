// The recommended rules of ESLint, typescript-eslint and eslint-plugin-svelte, and those on promises that need types.
import js from '@eslint/js';
import svelte from 'eslint-plugin-svelte';
import { defineConfig, globalIgnores } from 'eslint/config';
import globals from 'globals';
import ts from 'typescript-eslint';
import svelteConfig from './svelte.config.js';

export default defineConfig(
  // Made of src, and of docs/openapi.json.
  globalIgnores(['dist', 'src/lib/api/types.ts']),
  { linterOptions: { reportUnusedDisableDirectives: 'error' } },
  js.configs.recommended,
  ts.configs.recommended,
  svelte.configs.recommended,
  {
    rules: {
      // `_tick` is asked for so that what is derived of it is derived again; `_` takes a part out of the rest.
      '@typescript-eslint/no-unused-vars': ['error', { argsIgnorePattern: '^_', varsIgnorePattern: '^_$' }],
    },
  },
  {
    files: ['**/*.ts', '**/*.svelte'],
    languageOptions: { globals: globals.browser, parserOptions: { projectService: true, extraFileExtensions: ['.svelte'] } },
    rules: {
      // The compiler tells names that are not there.
      'no-undef': 'off',
      '@typescript-eslint/no-floating-promises': 'error',
      '@typescript-eslint/no-misused-promises': 'error',
    },
  },
  { files: ['**/*.svelte', '**/*.svelte.ts'], languageOptions: { parserOptions: { parser: ts.parser, svelteConfig } } },
  { files: ['**/*.js', '**/*.mjs'], languageOptions: { globals: { ...globals.node, ...globals.browser } } },
);
