// Before the first paint, so that no page flashes in the other theme. A file, because the page allows no inline script.
(function () {
  var kept = null;
  try {
    kept = localStorage.getItem('cronflow.theme');
  } catch {
    // Storage is off: the system's theme it is.
  }
  var system = matchMedia('(prefers-color-scheme: light)').matches ? 'light' : 'dark';
  document.documentElement.dataset.theme = kept === 'light' || kept === 'dark' ? kept : system;
})();
