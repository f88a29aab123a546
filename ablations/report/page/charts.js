"use strict";
// What Plotly draws of a panel: its traces and its layout in the colours of the theme, without the
// variants that are hidden. A colour is "--name" or "--name/opacity", a variable of the CSS.
const charts = (() => {
  const coarse = matchMedia("(pointer: coarse)").matches;
  const css = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();

  function ink(value) {
    const [name, opacity] = value.split("/");
    const color = name.startsWith("--") ? css(name) : name;
    if (!opacity || !color.startsWith("#")) return color;
    const n = parseInt(color.slice(1), 16);
    return `rgba(${n >> 16}, ${(n >> 8) & 255}, ${n & 255}, ${opacity})`;
  }

  function themed(value, key) {
    if (typeof value === "string") return /color$/.test(key) ? ink(value) : value;
    if (Array.isArray(value)) return value.map((one) => (typeof one === "object" ? themed(one, key) : one));
    if (value === null || typeof value !== "object") return value;
    return Object.fromEntries(Object.entries(value).map(([name, one]) => [name, themed(one, name)]));
  }

  const base = () => ({
    paper_bgcolor: "rgba(0,0,0,0)", plot_bgcolor: "rgba(0,0,0,0)",
    font: { family: "system-ui, -apple-system, 'Segoe UI', Roboto, 'DejaVu Sans', sans-serif", size: 12, color: css("--quiet") },
    margin: { l: 10, r: 12, t: 8, b: 10 }, dragmode: coarse ? false : "zoom",
    legend: { itemclick: false, itemdoubleclick: false, orientation: "h", x: 0, y: -0.28, yanchor: "top", font: { color: css("--text") } },
    hoverlabel: { bgcolor: css("--raised"), bordercolor: css("--line"), font: { color: css("--text") }, namelength: -1 },
  });

  function axis(given) {
    const narrow = innerWidth < 640;
    const more = themed(given, "");
    more.title.standoff = 6;
    if (narrow && more.nticks) more.nticks = Math.min(more.nticks, 5);
    // On a phone long names take several lines, not the room of what is drawn.
    if (narrow && more.ticktext) more.ticktext = more.ticktext.map((one) => one.replace(/([^<>]{12,}?[_=, /@])(?=[^\s<])/g, "$1<br>"));
    return {
      automargin: true, gridcolor: css("--grid"), linecolor: css("--quiet"), zeroline: false, fixedrange: coarse,
      ticks: "outside", ticklen: 4, tickcolor: css("--line"), ...more,
    };
  }

  function drawn(panel, shown) {
    const traces = panel.traces.filter((trace) => !trace.meta || shown(trace.meta));
    const { xaxis, yaxis, ...layout } = panel.layout;
    return [themed(traces, ""), { ...base(), ...themed(layout, ""), xaxis: axis(xaxis), yaxis: axis(yaxis) }];
  }

  return { ink, drawn };
})();
