import { mount } from 'svelte';
import '../styles/tokens.css';
import '../styles/base.css';
import Speed from './Speed.svelte';

const target = document.getElementById('app');
if (target === null) throw new Error('the page has no element #app');
mount(Speed, { target });
