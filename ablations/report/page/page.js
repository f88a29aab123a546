"use strict";
// Draws the charts of the data element, follows the theme, and asks for news on a live page.
(() => {
  const root = document.documentElement;
  const DASHES = ["solid", "9px,3px", "2px,2px", "9px,3px,2px,3px", "14px,4px", "5px,2px"];
  const VERDICTS = { better: "--better", worse: "--worse", "better, by an undecided amount": "--better", "worse, by an undecided amount": "--worse", equivalent: "--equivalent", identical: "--equivalent", "tasks disagree": "--unstable", higher: "--equivalent", lower: "--equivalent", unstable: "--unstable", "unstable baseline": "--unstable" };
  const coarse = matchMedia("(pointer: coarse)").matches;
  let data = { charts: {}, legends: {} };
  let hidden = {}; // study -> the variants that the reader switched off
  let waiting = null; // tells which charts come into view

  const css = (name) => getComputedStyle(root).getPropertyValue(name).trim();
  const safe = (text) => String(text).replace(/&/g, "&amp;").replace(/</g, "&lt;").replace(/>/g, "&gt;");
  const faded = (hex, alpha) => {
    const n = parseInt(hex.slice(1), 16);
    return `rgba(${n >> 16}, ${(n >> 8) & 255}, ${n & 255}, ${alpha})`;
  };

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
  const looks = (key, variant) => {
    const one = (data.legends[study(key)] || []).find((entry) => entry.name === variant) || { place: 7 };
    return { color: css(`--v${one.place % 8}`), dash: DASHES[one.place % DASHES.length], width: one.place === 0 ? 2.6 : 2 };
  };
  const shown = (key, variant) => !(hidden[study(key)] || new Set()).has(variant);
  const g4 = (value) => (value === null || value === undefined ? "" : Number(value.toPrecision(4)).toString());

  const base = () => ({
    paper_bgcolor: "rgba(0,0,0,0)", plot_bgcolor: "rgba(0,0,0,0)",
    font: { family: "system-ui, -apple-system, 'Segoe UI', Roboto, 'DejaVu Sans', sans-serif", size: 12, color: css("--quiet") },
    margin: { l: 10, r: 12, t: 8, b: 10 }, showlegend: false, dragmode: coarse ? false : "zoom",
    hoverlabel: { bgcolor: css("--raised"), bordercolor: css("--line"), font: { color: css("--text") }, namelength: -1 },
  });
  const axis = (title, more) => ({
    title: { text: safe(title), standoff: 6 }, automargin: true, gridcolor: css("--grid"), linecolor: css("--quiet"),
    zeroline: false, fixedrange: coarse, ticks: "outside", ticklen: 4, tickcolor: css("--line"), ...more,
  });

  function lines(key, chart, panel) {
    const traces = [];
    for (const line of panel.lines) {
      if (!shown(key, line.variant)) continue;
      const look = looks(key, line.variant);
      const kept = (line.low || []).map((v, i) => i).filter((i) => line.low[i] !== null && line.high[i] !== null);
      if (kept.length > 1) {
        let xs = kept.map((i) => line.x[i]), low = kept.map((i) => line.low[i]), high = kept.map((i) => line.high[i]);
        if (chart.shape === "hv") {
          const step = (v) => v.flatMap((one, i) => (i + 1 < v.length ? [one, one] : [one]));
          low = step(low); high = step(high);
          xs = xs.flatMap((one, i) => (i + 1 < xs.length ? [one, xs[i + 1]] : [one]));
        }
        traces.push({
          type: "scatter", mode: "lines", x: [...xs, ...[...xs].reverse()], y: [...high, ...[...low].reverse()], fill: "toself",
          fillcolor: faded(look.color, 0.14), line: { width: 0 }, hoverinfo: "skip", name: safe(line.variant),
        });
      }
      traces.push({
        type: "scatter", mode: line.x.length <= 6 ? "lines+markers" : "lines", x: line.x, y: line.y, name: safe(line.variant),
        line: { color: look.color, dash: look.dash, width: look.width, shape: chart.shape || "linear" },
        text: line.x.map((_, i) => g4(line.y[i]) + (line.low && line.low[i] !== null ? ` [${g4(line.low[i])}, ${g4(line.high[i])}]` : "")),
        hovertemplate: `${safe(line.variant)}: %{text}<extra></extra>`,
      });
    }
    const layout = { ...base(), height: 290, hovermode: "x unified", xaxis: axis(panel.x, { rangemode: "tozero", hoverformat: ",.4~g" }), yaxis: axis(panel.y, { nticks: 7 }) };
    if (chart.shape === "hv") { layout.xaxis.rangemode = "normal"; layout.yaxis.range = [-0.03, 1.04]; }
    return [traces, layout];
  }

  function rows(key, chart, panel) {
    const several = new Set(panel.rows.map((row) => row.baseline)).size > 1;
    const name = (row) => safe(row.variant) + (several && row.baseline ? `<br><span style="font-size:.85em">vs ${safe(row.baseline)}</span>` : "");
    const color = (row) => ("verdict" in row ? css(VERDICTS[row.verdict] || "--undecided") : looks(key, row.variant).color);
    const traces = panel.rows.map((row, i) => ({
      type: "scatter", mode: "markers", x: [row.value], y: [i], name: safe(row.variant),
      marker: { color: /undecided/.test(row.verdict) ? css("--page") : color(row), size: 10, line: { color: color(row), width: 2 } },
      error_x: row.low === null ? undefined : { type: "data", symmetric: false, array: [row.high - row.value], arrayminus: [row.value - row.low], color: color(row), thickness: 2.4, width: 0 },
      hovertemplate: `<b>${safe(row.variant)}</b>${row.baseline ? ` vs ${safe(row.baseline)}` : ""}<br>${safe(row.text)}<extra></extra>`,
    }));
    const shapes = [];
    if (panel.margin) shapes.push({ type: "rect", xref: "x", yref: "paper", x0: -panel.margin, x1: panel.margin, y0: 0, y1: 1, fillcolor: css("--margin"), line: { width: 0 }, layer: "below" });
    if (panel.reference !== undefined) shapes.push({ type: "line", xref: "x", yref: "paper", x0: panel.reference, x1: panel.reference, y0: 0, y1: 1, line: { color: css("--quiet"), width: 1 } });
    // Shapes do not count for an axis of its own accord: the whole margin must be in it.
    const seen = panel.rows.flatMap((row) => [row.value, row.low, row.high]).filter((one) => one !== null);
    const ends = [...seen, ...(panel.margin ? [-panel.margin, panel.margin] : []), ...(panel.reference === undefined ? [] : [panel.reference])];
    const least = Math.min(...ends), most = Math.max(...ends), room = 0.06 * (most - least || Math.abs(most) || 1);
    const range = panel.range || [least - room, most + room];
    const layout = {
      ...base(), height: 78 + (several ? 44 : 34) * panel.rows.length, hovermode: "closest", shapes,
      xaxis: axis(panel.x, { nticks: 6, range }),
      yaxis: { ...axis("", {}), tickvals: panel.rows.map((_, i) => i), ticktext: panel.rows.map(name), range: [panel.rows.length - 0.4, -0.6], showgrid: false, ticks: "", fixedrange: true, tickfont: { color: css("--text") } },
    };
    return [traces, layout];
  }

  function matrix(key, chart, panel) {
    const n = panel.names.length;
    const empty = () => Array.from({ length: n }, () => Array(n).fill(null));
    const z = empty(), said = empty();
    let reach = 0;
    for (const cell of panel.cells) {
      z[cell.row][cell.column] = cell.value;
      said[cell.row][cell.column] = safe(cell.row === cell.column ? panel.names[cell.row] : `${panel.names[cell.column]} and ${panel.names[cell.row]}`) + "<br>" + safe(cell.text);
      reach = Math.max(reach, Math.abs(cell.value));
    }
    reach = reach || 1;
    const places = panel.names.map((_, i) => i);
    // A line break at "=": long names must not take the whole width of a phone.
    const names = panel.names.map((one) => safe(one).replace(" = ", "<br>= "));
    const traces = [{
      type: "heatmap", x: places, y: places, z, customdata: said, hovertemplate: "%{customdata}<extra></extra>", hoverongaps: false,
      zmin: -reach, zmax: reach, showscale: false, xgap: 2, ygap: 2, colorscale: [[0, css("--down")], [0.5, css("--middle")], [1, css("--up")]],
    }];
    const annotations = panel.cells.map((cell) => {
      const number = (cell.value > 0 ? "+" : "") + g4(Number(cell.value.toPrecision(2)));
      const text = cell.equivalent ? `(${number})` : number;
      const strong = Math.abs(cell.value) > 0.55 * reach;
      const ink = strong ? (cell.value > 0 ? "--on-up" : "--on-down") : "--text";
      return { x: cell.column, y: cell.row, text: cell.significant ? `<b>${text}</b>` : text, showarrow: false, font: { size: 12, color: css(ink) } };
    });
    const ticks = { tickvals: places, ticktext: names, showgrid: false, ticks: "", tickfont: { size: 11, color: css("--text") } };
    const layout = { ...base(), annotations, height: 150 + 62 * n, xaxis: axis("", ticks), yaxis: { ...axis("", ticks), range: [n - 0.5, -0.5] } };
    return [traces, layout];
  }

  const KINDS = { lines, rows, matrix };

  function draw(panels) {
    const key = panels.dataset.chart;
    const chart = data.charts[key];
    const figure = panels.closest("figure");
    if (!chart || !window.Plotly) return;
    chart.panels.forEach((panel, i) => {
      const place = panels.querySelectorAll(".plot")[i];
      const [traces, layout] = KINDS[chart.kind](key, chart, panel);
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
      const several = new Set(entries.map((entry) => entry.group)).size > 1;
      const focused = document.activeElement && place.contains(document.activeElement) ? document.activeElement.dataset.variant : null;
      place.replaceChildren();
      for (const entry of entries) {
        const look = looks(`${slug}/`, entry.name);
        const one = document.createElement("button");
        one.type = "button";
        one.dataset.variant = entry.name;
        one.setAttribute("aria-pressed", String(shown(`${slug}/`, entry.name)));
        one.innerHTML = `<svg width="30" height="8" aria-hidden="true" focusable="false"><path d="M0 4H30" stroke="${look.color}" stroke-width="${look.width + 0.4}" ${look.dash === "solid" ? "" : `stroke-dasharray="${look.dash.replace(/px/g, "")}"`}/></svg>`;
        one.append(entry.name);
        one.addEventListener("click", () => {
          const off = (hidden[slug] = hidden[slug] || new Set());
          if (!off.delete(entry.name)) off.add(entry.name);
          one.setAttribute("aria-pressed", String(!off.has(entry.name)));
          redraw(slug);
        });
        if (several && entry.place === 0) {
          const label = document.createElement("span");
          label.className = "vs";
          label.textContent = `group of ${entry.name}:`;
          place.append(label);
        }
        place.append(one);
        if (focused === entry.name) one.focus();
      }
      place.hidden = entries.length < 2;
    }
  }

  function start() {
    data = JSON.parse(document.getElementById("data").textContent);
    legends();
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

  // ---- a live page asks for news

  function underWay(rows) {
    const place = document.getElementById("running");
    if (!place) return;
    place.replaceChildren(...rows.map((row) => {
      const item = document.createElement("li");
      const name = `${row.study}: ${row.variant} on ${row.task}, seed ${row.seed}`;
      const bar = document.createElement("progress");
      bar.max = row.steps || 1;
      bar.value = row.step || 0;
      bar.setAttribute("aria-label", name);
      const steps = document.createElement("span");
      steps.className = "quiet";
      steps.textContent = `${(row.step || 0).toLocaleString("en")} of ${(row.steps || 0).toLocaleString("en")} steps`;
      item.append(name, bar, steps);
      return item;
    }));
  }

  async function fresh() {
    const text = await fetch("./").then((one) => (one.ok ? one.text() : null)).catch(() => null);
    if (text === null) return false;
    const other = new DOMParser().parseFromString(text, "text/html");
    const named = (one) => one.id || one.className;
    const open = [...document.querySelectorAll("details[open]")].map(named);
    for (const one of other.querySelectorAll("details")) one.open = open.includes(named(one));
    document.getElementById("content").replaceChildren(...other.getElementById("content").childNodes);
    document.querySelector("nav").replaceChildren(...other.querySelector("nav").childNodes);
    document.title = other.title;
    if (window.Plotly) start();
    return true;
  }

  async function news(seen) {
    const answer = await fetch("state").then((one) => (one.ok ? one.json() : null)).catch(() => null);
    let state = seen;
    if (answer && (seen === null || answer.state === seen || (await fresh()))) state = answer.state;
    if (answer) underWay(answer.running);
    setTimeout(news, 2000, state);
  }

  // ---- print: everything open; the figures are the static ones

  let folded = [];
  addEventListener("beforeprint", () => {
    folded = [...document.querySelectorAll("details:not([open])")];
    for (const one of folded) one.open = true;
  });
  addEventListener("afterprint", () => { for (const one of folded) one.open = false; });

  if (typeof DecompressionStream === "function") {
    library().then(start).catch((problem) => console.warn("static figures only:", problem));
  }
  if (document.body.hasAttribute("data-live")) news(null);
})();
