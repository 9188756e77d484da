// The colours of the view: those that the reader chose, in the light or dark theme of the page.

function look(view) {
  const ink = getComputedStyle(view.root).color;
  if (ink !== view.theme.ink) view.theme = { ink, name: isDark(blended(STYLE.MIDDLE, ink)) ? "light" : "dark" };
  return { ink, accent: STYLE.CHOICES[view.colours.value][view.theme.name], palettes: view.model.get("palettes") };
}

// Opaque ones. The paper is what lies behind the view, or fits its text where nothing does.
function themeColours(root) {
  const behind = [];
  for (let node = root; node; node = node.parentElement) behind.unshift(getComputedStyle(node).backgroundColor);
  const paper = blended(STYLE.LIGHT_PAPER, ...behind);
  const ink = blended(paper, getComputedStyle(root).color);
  if (isDark(paper) !== isDark(ink)) return { paper, ink };
  return { paper: isDark(ink) ? STYLE.LIGHT_PAPER : STYLE.DARK_PAPER, ink };
}

// Draws again when the theme changes. Returns what ends that.
function watchTheme(view) {
  const again = () => schedule(view);
  const themes = new MutationObserver(again);
  themes.observe(document.body, { attributes: true, attributeFilter: ["data-jp-theme-light", "data-jp-theme-name", "class"] });
  const system = window.matchMedia("(prefers-color-scheme: dark)");
  system.addEventListener("change", again);
  return () => {
    themes.disconnect();
    system.removeEventListener("change", again);
  };
}
