import { render } from 'preact';
import './style.css';
import { PhonePage } from './page.tsx';
import { phone } from './phone.ts';

void phone.start();
const root = document.getElementById('app');
if (root) render(<PhonePage />, root);
