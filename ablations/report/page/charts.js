"use strict";
// What Plotly draws for each kind of chart: (view, chart, panel) -> traces and layout. The view says
// how a variant looks and whether it is shown.
const charts = (() => {
  const root = document.documentElement;
  const DASHES = ["solid", "9px,3px", "2px,2px", "9px,3px,2px,3px", "14px,4px", "5px,2px"];
  const VERDICTS = { better: "--better", worse: "--worse", "better, by an undecided amount": "--better", "worse, by an undecided amount": "--worse", equivalent: "--equivalent", identical: "--equivalent", "tasks disagree": "--unstable", higher: "--equivalent", lower: "--equivalent", unstable: "--unstable", "unstable baseline": "--unstable" };
  const coarse = matchMedia("(pointer: coarse)").matches;

  const css = (name) => getComputedStyle(root).getPropertyValue(name).trim();
  const safe = (text) => String(text).replace(/&/g, "&amp;").replace(/</g, "&lt;").replace(/>/g, "&gt;");
  const faded = (hex, alpha) => {
    const n = parseInt(hex.slice(1), 16);
    return `rgba(${n >> 16}, ${(n >> 8) & 255}, ${n & 255}, ${alpha})`;
  };
  const g4 = (value) => (value === null || value === undefined ? "" : Number(value.toPrecision(4)).toString());

  const base = () => ({
    paper_bgcolor: "rgba(0,0,0,0)", plot_bgcolor: "rgba(0,0,0,0)",
    font: { family: "system-ui, -apple-system, 'Segoe UI', Roboto, 'DejaVu Sans', sans-serif", size: 12, color: css("--quiet") },
    margin: { l: 10, r: 12, t: 8, b: 10 }, showlegend: false, dragmode: coarse ? false : "zoom",
    hoverlabel: { bgcolor: css("--raised"), bordercolor: css("--line"), font: { color: css("--text") }, namelength: -1 },
  });
  // Colours of lines that are no variants: the palette, or shades in order where it is too short.
  const shade = (i, n) => (n <= 8 ? css(`--v${i}`) : `hsl(${270 - (220 * i) / (n - 1)}, 65%, 50%)`);
  const dots = (x, y, color) => ({ type: "scatter", mode: "markers", x, y, marker: { color, size: 4, opacity: 0.45 }, hoverinfo: "skip", showlegend: false });
  const axis = (title, more) => ({
    title: { text: safe(title), standoff: 6 }, automargin: true, gridcolor: css("--grid"), linecolor: css("--quiet"),
    zeroline: false, fixedrange: coarse, ticks: "outside", ticklen: 4, tickcolor: css("--line"), ...more,
  });

  function lines(view, chart, panel) {
    const traces = [];
    for (const line of panel.lines) {
      if (!view.shown(line.variant)) continue;
      const look = view.looks(line.variant);
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
    if (panel.x === "share of training") layout.xaxis.tickformat = ".0%";
    if (chart.shape === "hv") { layout.xaxis.rangemode = "normal"; layout.yaxis.range = [-0.03, 1.04]; }
    return [traces, layout];
  }

  function rows(view, chart, panel) {
    const several = new Set(panel.rows.map((row) => row.baseline)).size > 1;
    const narrow = innerWidth < 640;
    // On a phone long names take several lines, not the room of what is drawn.
    const broken = (text) => (narrow ? text.replace(/(.{12,}?[_=, /@])(?=\S)/g, "$1\n") : text).split("\n").map(safe).join("<br>");
    const name = (row) => broken(row.variant) + (several && row.baseline ? `<br><span style="font-size:.85em">vs ${safe(row.baseline)}</span>` : "");
    const color = (row) => ("verdict" in row ? css(VERDICTS[row.verdict] || "--undecided") : view.looks(row.variant).color);
    const traces = panel.rows.map((row, i) => ({
      type: "scatter", mode: "markers", x: [row.value], y: [i], name: safe(row.variant),
      marker: { color: /undecided/.test(row.verdict) ? css("--page") : color(row), size: 10, line: { color: color(row), width: 2 } },
      error_x: row.low === null ? undefined : { type: "data", symmetric: false, array: [row.high - row.value], arrayminus: [row.value - row.low], color: color(row), thickness: 2.4, width: 0 },
      hovertemplate: `<b>${safe(row.variant)}</b>${row.baseline ? ` vs ${safe(row.baseline)}` : ""}<br>${safe(row.text)}<extra></extra>`,
    }));
    for (const [i, row] of panel.rows.entries()) {
      if (row.dots && row.dots.length) traces.push(dots(row.dots, row.dots.map(() => i + 0.26), color(row)));
    }
    const shapes = [];
    if (panel.margin) shapes.push({ type: "rect", xref: "x", yref: "paper", x0: -panel.margin, x1: panel.margin, y0: 0, y1: 1, fillcolor: css("--margin"), line: { width: 0 }, layer: "below" });
    if (panel.reference !== undefined) shapes.push({ type: "line", xref: "x", yref: "paper", x0: panel.reference, x1: panel.reference, y0: 0, y1: 1, line: { color: css("--quiet"), width: 1 } });
    // Shapes do not count for an axis of its own accord: the whole margin must be in it.
    const seen = panel.rows.flatMap((row) => [row.value, row.low, row.high, ...(row.dots || [])]).filter((one) => one !== null);
    const ends = [...seen, ...(panel.margin ? [-panel.margin, panel.margin] : []), ...(panel.reference === undefined ? [] : [panel.reference])];
    const least = Math.min(...ends), most = Math.max(...ends), room = 0.06 * (most - least || Math.abs(most) || 1);
    const range = panel.range || [least - room, most + room];
    const layout = {
      ...base(), height: 78 + (several ? 44 : 34) * panel.rows.length, hovermode: "closest", shapes,
      xaxis: axis(panel.x, { ...(panel.ticks ? { tickvals: panel.ticks } : { nticks: narrow || chart.columns > 3 ? 4 : 6 }), range, tickangle: 0 }),
      yaxis: { ...axis("", {}), tickvals: panel.rows.map((_, i) => i), ticktext: panel.rows.map(name), range: [panel.rows.length - 0.4, -0.6], showgrid: false, ticks: "", fixedrange: true, tickfont: { color: css("--text") } },
    };
    return [traces, layout];
  }

  // Lines of their own names: along a number, or a point each.
  function along(view, chart, panel) {
    const n = panel.lines.length, [places, labels] = panel.ticks || [[], []];
    // Intervals stand beside each other, nearer than the values do.
    const gap = Math.min(...places.slice(1).map((one, i) => one - places[i]));
    const step = places.length ? Math.min(0.014 * (places[places.length - 1] - places[0]), (0.6 * gap) / n) : 0;
    const traces = [];
    if (panel.band) {
      const [x, low, high] = panel.band;
      traces.push({ type: "scatter", mode: "lines", x: [...x, ...[...x].reverse()], y: [...high, ...[...low].reverse()], fill: "toself", fillcolor: css("--margin"), line: { width: 0 }, hoverinfo: "skip", showlegend: false });
    }
    const bars = (middle, low, high) => ({ type: "data", symmetric: false, array: high.map((v, i) => (v === null ? 0 : v - middle[i])), arrayminus: low.map((v, i) => (v === null ? 0 : middle[i] - v)), thickness: 1.8, width: 0 });
    panel.lines.forEach((line, i) => {
      const aside = step * (i - (n - 1) / 2);
      const x = line.x.map((v) => v + aside), color = shade(i, n);
      if (line.dots && n <= 4) traces.push(dots(line.dots[0].map((v) => v + aside), line.dots[1], color));
      traces.push({
        type: "scatter", mode: "lines+markers", x, y: line.y, name: safe(line.name), line: { color, width: 1.6 }, marker: { color, size: 7 },
        error_y: { ...bars(line.y, line.low, line.high), color }, error_x: line.left ? { ...bars(line.x, line.left, line.right), color } : undefined,
        text: line.y.map((v, j) => `${g4(v)} [${g4(line.low[j])}, ${g4(line.high[j])}]` + (line.left ? `, lost ${g4(line.x[j])} [${g4(line.left[j])}, ${g4(line.right[j])}]` : "")),
        hovertemplate: `${safe(line.name)}: %{text}<extra></extra>`,
      });
    });
    const layout = { ...base(), height: 320 + 18 * (n > 1 ? n : 0), hovermode: "closest", showlegend: n > 1, xaxis: axis(panel.x, {}), yaxis: axis(panel.y, { nticks: 7 }) };
    layout.legend = { orientation: "h", x: 0, y: -0.28, yanchor: "top", font: { color: css("--text") } };
    if (places.length) Object.assign(layout.xaxis, { tickvals: places, ticktext: labels, tickangle: 0 });
    if (panel.reference !== undefined) layout.shapes = [{ type: "line", xref: "x", yref: "paper", x0: panel.reference, x1: panel.reference, y0: 0, y1: 1, line: { color: css("--quiet"), width: 1 } }];
    return [traces, layout];
  }

  function matrix(view, chart, panel) {
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

  return { css, DASHES, KINDS: { lines, rows, matrix, along } };
})();
