// A click on a server's name in a plot hides or shows it, in all plots.
document.addEventListener('click', event => {
  const key = event.target.closest('.key');
  if (!key) return;
  const hide = !key.classList.contains('off');
  for (const mark of document.querySelectorAll('[data-series]'))
    if (mark.dataset.series === key.dataset.series) mark.classList.toggle('off', hide);
});
// Paper has no clicks: everything is unfolded before printing.
addEventListener('beforeprint', () => document.querySelectorAll('details').forEach(details => details.open = true));
