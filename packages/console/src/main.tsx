import './theme.css';
import { QueryClientProvider } from '@tanstack/react-query';
import { StrictMode } from 'react';
import { createRoot } from 'react-dom/client';
import { Router } from 'wouter';
import { queries } from './api/queries.ts';
import { App } from './app.tsx';
import { applyTheme } from './preferences.ts';
import { Toasts } from './ui/toast.tsx';

applyTheme();
const root = document.querySelector('#root');
if (root === null) throw new Error('The page has no element #root');
createRoot(root).render(
  <StrictMode>
    <QueryClientProvider client={queries}>
      <Router base="/console">
        <App />
      </Router>
      <Toasts />
    </QueryClientProvider>
  </StrictMode>,
);
