import { render } from 'preact';
import './style.css';
import { readAccount } from './gateway/account.ts';
import { startWorker } from './push/push.ts';
import { App } from './shell/app.tsx';

void readAccount();
startWorker();
const root = document.getElementById('app');
if (root) render(<App />, root);
