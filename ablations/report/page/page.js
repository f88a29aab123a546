"use strict";
// Draws the charts of the data element, lists and saves what is in it, keeps what is shown in the
// address, and follows the theme.
(() => {
  const root = document.documentElement;
  let data = { charts: {}, legends: {}, files: {}, runs: {} };
  // Without a prototype, as a study may be called "constructor".
  let hidden = Object.create(null); // study -> the variants that the reader switched off
  let filters = Object.create(null); // study -> the words that its list of runs is filtered by
  let waiting = null; // tells which charts come into view

  // ---- theme

  const THEMES = ["auto", "light", "dark"];
  const button = document.getElementById("theme");
  let theme = "auto";
  try { theme = localStorage.getItem("ablations-theme") || "auto"; } catch { /* a page without storage */ }
  const setTheme = (name) => {
    theme = THEMES.includes(name) ? name : "auto";
    if (theme === "auto") delete root.dataset.theme; else root.dataset.theme = theme;
    button.querySelector("span").textContent = theme;
    try { localStorage.setItem("ablations-theme", theme); } catch { /* as above */ }
  };
  button.hidden = false;
  setTheme(theme);
  button.addEventListener("click", () => {
    setTheme(THEMES[(THEMES.indexOf(theme) + 1) % THEMES.length]);
    redraw();
  });
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => redraw());

  // ---- charts

  const study = (key) => key.slice(0, key.indexOf("/"));
  const shown = (key, variant) => !(hidden[study(key)] || new Set()).has(variant);

  function draw(panels) {
    const key = panels.dataset.chart;
    const chart = data.charts[key];
    const figure = panels.closest("figure");
    if (!chart || !window.Plotly) return;
    chart.panels.forEach((panel, i) => {
      const place = panels.querySelectorAll(".plot")[i];
      const [traces, layout] = charts.drawn(panel, (variant) => shown(key, variant));
      const first = !place.data;
      Plotly.react(place, traces, layout, { displayModeBar: false, responsive: true, doubleClick: "reset", showTips: false }).then(() => {
        place.dataset.drawn = "1";
      });
      if (first) {
        place.on("plotly_relayout", (change) => {
          const reset = figure.querySelector(".reset");
          if (Object.keys(change).some((name) => name.includes("range["))) reset.hidden = false;
          else if (Object.keys(change).some((name) => name.includes("autorange"))) reset.hidden = true;
        });
      }
    });
    panels.dataset.ready = "1";
  }

  function redraw(only) {
    for (const panels of document.querySelectorAll(".panels[data-ready]")) {
      if (!only || study(panels.dataset.chart) === only) draw(panels);
    }
    if (!only) legends();
  }

  function legends() {
    for (const place of document.querySelectorAll("[data-legend]")) {
      const slug = place.dataset.legend;
      const entries = data.legends[slug] || [];
      let family = "";
      const focused = document.activeElement && place.contains(document.activeElement) ? document.activeElement.dataset.variant : null;
      place.replaceChildren();
      for (const entry of entries) {
        const one = document.createElement("button");
        one.type = "button";
        one.dataset.variant = entry.name;
        one.setAttribute("aria-pressed", String(shown(`${slug}/`, entry.name)));
        one.innerHTML = `<svg width="30" height="8" aria-hidden="true" focusable="false"><path d="M0 4H30" stroke="${charts.ink(entry.color)}" stroke-width="2.4" ${entry.dash === "solid" ? "" : `stroke-dasharray="${entry.dash.replace(/px/g, "")}"`}/></svg>`;
        one.append(entry.name);
        one.addEventListener("click", () => {
          const off = (hidden[slug] = hidden[slug] || new Set());
          if (!off.delete(entry.name)) off.add(entry.name);
          one.setAttribute("aria-pressed", String(!off.has(entry.name)));
          redraw(slug);
          address();
        });
        if (entry.family !== family) {
          family = entry.family;
          const label = document.createElement("span");
          label.className = "vs";
          label.textContent = `${family}:`;
          place.append(label);
        }
        place.append(one);
        if (focused === entry.name) one.focus();
      }
      if (entries.length > 8) {
        const every = document.createElement("button");
        every.type = "button";
        every.textContent = "all or none";
        every.addEventListener("click", () => {
          hidden[slug] = (hidden[slug] || new Set()).size ? new Set() : new Set(entries.map((entry) => entry.name));
          legends();
          redraw(slug);
          address();
        });
        place.append(every);
      }
      place.hidden = entries.length < 2;
    }
  }

  // ---- what is shown is in the address: ?hide.<study>=<variant>&runs.<study>=<words>#<figure>

  function address() {
    const query = new URLSearchParams();
    for (const [slug, names] of Object.entries(hidden)) for (const name of names) query.append(`hide.${slug}`, name);
    for (const [slug, words] of Object.entries(filters)) if (words) query.append(`runs.${slug}`, words);
    const text = query.toString();
    history.replaceState(null, "", `${location.pathname}${text && `?${text}`}${location.hash}`);
  }

  function fromAddress() {
    for (const [name, value] of new URLSearchParams(location.search)) {
      const [kind, slug] = [name.slice(0, name.indexOf(".")), name.slice(name.indexOf(".") + 1)];
      if (kind === "hide") (hidden[slug] = hidden[slug] || new Set()).add(value);
      if (kind === "runs") filters[slug] = value;
    }
  }

  function goTo() {
    let name = location.hash.slice(1);
    try { name = decodeURIComponent(name); } catch { /* somebody wrote a bare % there */ }
    const place = document.getElementById(name);
    if (!place) return;
    for (let one = place.closest("details"); one; one = one.parentElement.closest("details")) one.open = true;
    place.scrollIntoView({ behavior: "instant" });
  }

  // ---- runs: thousands are not in the page until someone looks, and then so many at a time

  const AT_ONCE = 200;
  const HEADS = ["task", "variant", "seed", "status", "score", "seconds", "started", "made_by", "cell"];

  function matching(slug) {
    const words = (filters[slug] || "").toLowerCase().split(/\s+/).filter(Boolean);
    const rows = data.runs[slug] || [];
    if (!words.length) return rows;
    return rows.filter((row) => {
      const text = row.join(" ").toLowerCase();
      return words.every((word) => text.includes(word));
    });
  }

  function fill(place, further = false) {
    const slug = place.dataset.runs, body = place.querySelector("tbody"), rows = matching(slug);
    if (!further) body.replaceChildren();
    for (const row of rows.slice(body.rows.length, body.rows.length + AT_ONCE)) {
      const line = body.insertRow();
      HEADS.forEach((head, i) => {
        const cell = line.insertCell();
        if (["seed", "score", "seconds"].includes(head)) cell.className = "number";
        if (head !== "cell") { cell.textContent = row[i]; return; }
        const code = document.createElement("code");
        code.textContent = row[i];
        if (!row[i + 1]) { cell.append(code); return; }
        const link = document.createElement("a");
        link.href = row[i + 1];
        link.setAttribute("aria-label", `watch ${row[1]} on ${row[0]}, seed ${row[2]}`);
        link.append(code, " \u25b6");
        cell.append(link);
      });
    }
    place.dataset.filled = "1";
    const left = rows.length - body.rows.length, more = place.querySelector(".further");
    place.querySelector(".count").textContent = `${body.rows.length} of ${rows.length} runs shown`;
    more.hidden = left === 0;
    more.textContent = `Show ${Math.min(left, AT_ONCE)} more`;
  }

  addEventListener("toggle", (event) => {
    const place = event.target;
    if (place.open && place.dataset.runs && !place.dataset.filled) fill(place);
  }, true);
  addEventListener("input", (event) => {
    const place = event.target.closest("[data-runs]");
    if (!place) return;
    filters[place.dataset.runs] = event.target.value;
    fill(place);
    address();
  });

  // ---- saving: figures as the static ones, tables as files

  async function saved(key, format) {
    if (key.endsWith("/runs")) {
      const inert = (value) => (/^'*[=+\-@\t\r]/.test(value) && isNaN(value) ? `'${value}` : value); // no formula
      const quoted = (value) => (/[",\r\n]/.test(value) ? `"${String(value).replace(/"/g, '""')}"` : value);
      const rows = matching(study(key)).map((row) => row.slice(0, HEADS.length).map(inert).map(quoted).join(","));
      return new Blob([[HEADS.join(","), ...rows, ""].join("\n")], { type: "text/csv" });
    }
    if (data.files[key]) return new Blob([data.files[key][format] + "\n"], { type: "text/plain" });
    const source = document.getElementById(key.replace("/", ".")).querySelector("img.static").src;
    if (format === "svg" || source.startsWith("data:image/png")) {
      const bytes = Uint8Array.from(atob(source.slice(source.indexOf(",") + 1)), (one) => one.charCodeAt(0));
      return new Blob([bytes], { type: source.slice(5, source.indexOf(";")) });
    }
    const image = new Image();
    image.src = source;
    await image.decode();
    const canvas = document.createElement("canvas");
    [canvas.width, canvas.height] = [2 * image.naturalWidth, 2 * image.naturalHeight];
    const ink = canvas.getContext("2d");
    ink.fillStyle = "#fff";
    ink.fillRect(0, 0, canvas.width, canvas.height);
    ink.drawImage(image, 0, 0, canvas.width, canvas.height);
    return new Promise((done) => canvas.toBlob(done, "image/png"));
  }

  addEventListener("click", async (event) => {
    const further = event.target.closest(".further");
    if (further) fill(further.closest("[data-runs]"), true);
    const button = event.target.closest("[data-save]");
    if (!button) return;
    const { save: key, format } = button.dataset;
    const link = document.createElement("a");
    link.href = URL.createObjectURL(await saved(key, format));
    link.download = `${key.replace("/", "_")}.${format}`;
    link.click();
    setTimeout(() => URL.revokeObjectURL(link.href), 10000);
  });

  function wire() {
    data = JSON.parse(document.getElementById("data").textContent);
    for (const part of Object.values(data)) Object.setPrototypeOf(part, null); // as of `hidden`
    legends();
    for (const one of document.querySelectorAll("[data-save], .filter")) one.hidden = false;
    for (const place of document.querySelectorAll("[data-runs]")) {
      place.querySelector("input").value = filters[place.dataset.runs] || "";
      if (place.open) fill(place);
    }
  }

  function start() {
    if (waiting) waiting.disconnect();
    waiting = new IntersectionObserver((entries) => {
      for (const entry of entries) {
        if (!entry.isIntersecting) continue;
        waiting.unobserve(entry.target);
        draw(entry.target);
      }
    }, { rootMargin: "500px" });
    for (const panels of document.querySelectorAll(".panels[data-chart]")) {
      const figure = panels.closest("figure");
      panels.hidden = false;
      figure.classList.add("drawn");
      figure.querySelector(".reset").addEventListener("click", (event) => {
        event.target.hidden = true;
        delete panels.dataset.ready;
        for (const place of panels.querySelectorAll(".plot")) Plotly.purge(place);
        draw(panels);
      });
      waiting.observe(panels);
    }
  }

  // ---- the library is compressed in the page

  async function library() {
    const packed = document.getElementById("library").textContent;
    const bytes = Uint8Array.from(atob(packed), (one) => one.charCodeAt(0));
    const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("gzip"));
    const script = document.createElement("script");
    script.textContent = await new Response(stream).text();
    document.head.append(script);
  }

  fromAddress();
  wire();
  goTo();
  addEventListener("hashchange", goTo);
  if (typeof DecompressionStream === "function") {
    library().then(start).catch((problem) => console.warn("static figures only:", problem));
  }
})();
