import { mount } from 'svelte';
import './app.css';
import App from './App.svelte';
import { store } from './lib/store.svelte';

void store.begin();
mount(App, { target: document.getElementById('app') as HTMLElement });
