// Before anything is drawn: the theme that was chosen here before, or that of the system.
const system = matchMedia("(prefers-color-scheme: dark)");
const memory = {
  // A browser may keep nothing for pages that are opened from files.
  get theme() {
    try {
      return localStorage.getItem("theme");
    } catch {
      return null;
    }
  },
  set theme(name) {
    try {
      localStorage.setItem("theme", name);
    } catch {}
  },
};

function applyTheme() {
  const theme = memory.theme ?? (system.matches ? "dark" : "light");
  document.documentElement.dataset.theme = theme;
  // The explorers' views watch this, as in JupyterLab.
  if (document.body) document.body.dataset.jpThemeLight = theme === "light";
}

document.documentElement.classList.add("scripted");
system.addEventListener("change", applyTheme);
applyTheme();
