import { mount } from 'svelte';
import './app.css';
import App from './App.svelte';
import { store } from './lib/store.svelte';
import { ui } from './lib/ui.svelte';

// No failure of an action is silent.
addEventListener('unhandledrejection', (event) => ui.report(event.reason));
void store.begin();
mount(App, { target: document.getElementById('app') as HTMLElement });
