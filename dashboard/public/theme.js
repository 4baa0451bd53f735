// Runs before the first paint, so that the page does not flash in the other theme. A file, because the CSP forbids inline scripts.
(function () {
  var saved = null;
  try {
    saved = localStorage.getItem('cronflow.theme');
  } catch {
    // Storage is disabled: use the system theme.
  }
  var system = matchMedia('(prefers-color-scheme: light)').matches ? 'light' : 'dark';
  document.documentElement.dataset.theme = saved === 'light' || saved === 'dark' ? saved : system;
})();
