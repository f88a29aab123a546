// The clock that all views share, the readouts, and the camera that one drags.
(() => {
  const root = document.documentElement;
  const id = (name) => document.getElementById(name);
  const css = (name) => getComputedStyle(root).getPropertyValue(name).trim();
  let stages = [], renderer = null, data = null;
  let time = 0, last = 0, playing = false, then = 0, stale = true;
  let orbit = { azimuth: 0, elevation: 0, zoom: 1 };

  const paint = () => {
    for (const one of stages) one.stage.paint(css, getComputedStyle(one.article).getPropertyValue("--ink").trim());
    stale = true;
  };
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", paint);

  // ---- the clock

  const number = (value) => (Math.abs(value) >= 1e5 || (value !== 0 && Math.abs(value) < 1e-3) ? value.toExponential(2) : Number(value.toPrecision(4)).toString());
  function play(on) {
    playing = on && last > 0;
    if (playing && time >= last) time = 0;
    document.body.classList.toggle("playing", playing);
    id("play").setAttribute("aria-label", playing ? "Pause" : "Play");
    stale = true;
  }
  function seek(to) {
    time = Math.min(Math.max(to, 0), last);
    stale = true;
  }
  function tick(now) {
    const passed = Math.min((now - then) / 1000, 0.1);
    then = now;
    if (playing) seek(time < last ? time + (passed * Number(id("speed").value)) / data.timestep : 0);
    if (stale) draw();
    requestAnimationFrame(tick);
  }

  // ---- what one sees

  // One WebGL context for all views: browsers have few.
  function view(stage, canvas) {
    const scale = Math.min(devicePixelRatio || 1, 2);
    const width = Math.max(1, Math.round(canvas.clientWidth * scale)), height = Math.max(1, Math.round(canvas.clientHeight * scale));
    if (canvas.width !== width || canvas.height !== height) Object.assign(canvas, { width, height });
    const held = renderer.domElement;
    if (held.width !== width || held.height !== height) renderer.setSize(width, height, false);
    stage.render(renderer, time, orbit, width, height);
    canvas.getContext("2d").drawImage(held, 0, 0);
  }

  function draw() {
    stale = false;
    const step = Math.floor(time);
    for (const one of stages) {
      const { stage, canvas, run } = one;
      const { top, bottom } = canvas.getBoundingClientRect();
      if (bottom > 0 && top < innerHeight) view(stage, canvas);
      const at = Math.min(step, run.rewards.length);
      one.readout.step.textContent = at.toLocaleString("en");
      one.readout.reward.textContent = at ? number(run.rewards[at - 1]) : "–";
      one.readout.return.textContent = number(one.returns[at]);
      one.over.hidden = time < run.rewards.length;
      const x = (Math.min(time, run.rewards.length) / last) * 1000;
      one.now.setAttribute("x1", x);
      one.now.setAttribute("x2", x);
    }
    id("time").value = step;
    id("time").setAttribute("aria-valuetext", `step ${step} of ${last}`);
    id("clock").textContent = `${step.toLocaleString("en")} / ${last.toLocaleString("en")} · ${(time * data.timestep).toFixed(1)} s`;
  }

  function rewardLine(one, low, high) {
    const flat = high === low;
    const points = one.run.rewards.map((reward, i) =>
      `${(((i + 1) / last) * 1000).toFixed(1)},${(flat ? 50 : 94 - (88 * (reward - low)) / (high - low)).toFixed(1)}`);
    one.article.querySelector(".line").setAttribute("d", `M${points.join("L")}`);
  }

  // ---- the camera

  const clamp = (value, low, high) => Math.min(Math.max(value, low), high);
  function move(azimuth, elevation, zoom) {
    orbit = {
      azimuth: orbit.azimuth + azimuth,
      elevation: clamp(orbit.elevation + elevation, 1, 89),
      zoom: clamp(orbit.zoom * zoom, 0.15, 6),
    };
    stale = true;
  }
  const home = () => { orbit = { azimuth: -62, elevation: data.elevation, zoom: 1 }; stale = true; };

  function listen(canvas) {
    canvas.addEventListener("pointerdown", (event) => canvas.setPointerCapture(event.pointerId));
    canvas.addEventListener("pointermove", (event) => {
      if (canvas.hasPointerCapture(event.pointerId)) move(-event.movementX * 0.4, event.movementY * 0.3, 1);
    });
    canvas.addEventListener("wheel", (event) => {
      event.preventDefault();
      move(0, 0, Math.exp(clamp(event.deltaY, -120, 120) * 0.0015));
    }, { passive: false });
    canvas.addEventListener("dblclick", home);
  }

  const ORBITS = { ArrowLeft: [-6, 0, 1], ArrowRight: [6, 0, 1], ArrowUp: [0, 5, 1], ArrowDown: [0, -5, 1], "+": [0, 0, 0.88], "=": [0, 0, 0.88], "-": [0, 0, 1.14] };
  addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey || !data) return;
    const where = event.target instanceof Element ? event.target.tagName : "";
    if (where === "CANVAS" && (ORBITS[event.key] || event.key === "0")) {
      if (event.key === "0") home(); else move(...ORBITS[event.key]);
    } else if (where === "SELECT" || (where === "BUTTON" && event.key === " ")) {
      return;
    } else if (event.key === " ") play(!playing);
    else if (event.key === "ArrowLeft" || event.key === "ArrowRight") {
      play(false);
      seek(Math.floor(time) + (event.key === "ArrowRight" ? 1 : -1) * (event.shiftKey ? 10 : 1));
    } else if (event.key === "Home") seek(0);
    else if (event.key === "End") seek(last);
    else return;
    event.preventDefault();
  });

  // ---- start

  async function opened(name) {
    const bytes = Uint8Array.from(atob(id(name).textContent), (one) => one.charCodeAt(0));
    return new Response(new Blob([bytes]).stream().pipeThrough(new DecompressionStream("gzip")));
  }
  async function library() {
    const script = document.createElement("script");
    script.textContent = await (await opened("library")).text();
    document.head.append(script);
    return window.THREE;
  }

  async function start() {
    const THREE = await library();
    data = await (await opened("data")).json();
    const numbers = new Int32Array(await (await opened("frames")).arrayBuffer());
    renderer = new THREE.WebGLRenderer({ antialias: true });
    renderer.outputEncoding = THREE.sRGBEncoding;
    renderer.shadowMap.enabled = true;
    renderer.shadowMap.type = THREE.PCFSoftShadowMap;

    let begin = 0;
    const articles = document.querySelectorAll(".run");
    stages = data.runs.map((run, place) => {
      const frames = unpack(numbers, begin, run, data.resolution);
      begin = frames.end;
      const article = articles[place], canvas = article.querySelector("canvas");
      listen(canvas);
      let sum = 0;
      return {
        run, article, canvas,
        stage: new Stage(THREE, run, frames, data.radius),
        returns: [0, ...run.rewards.map((reward) => (sum += reward))],
        readout: Object.fromEntries([...article.querySelectorAll("[data-is]")].map((one) => [one.dataset.is, one])),
        over: article.querySelector(".over"),
        now: article.querySelector(".now"),
      };
    });
    last = Math.max(...data.runs.map((run) => run.rewards.length));
    const all = data.runs.flatMap((run) => run.rewards);
    const low = all.reduce((a, b) => Math.min(a, b)), high = all.reduce((a, b) => Math.max(a, b));
    for (const one of stages) rewardLine(one, low, high);
    id("play").addEventListener("click", () => play(!playing));
    id("home").addEventListener("click", home);
    id("time").addEventListener("input", (event) => { play(false); seek(Number(event.target.value)); });
    addEventListener("scroll", () => { stale = true; }, { passive: true });
    new ResizeObserver(() => { stale = true; }).observe(id("runs"));
    home();
    paint();

    // page.html#step=120 opens there and waits
    const asked = /^#step=(\d+)$/.exec(location.hash);
    if (asked) seek(Number(asked[1]));
    play(!asked && !matchMedia("(prefers-reduced-motion: reduce)").matches);
    requestAnimationFrame((now) => { then = now; tick(now); });
  }

  start().catch((problem) => {
    const box = id("problem");
    box.textContent = `This browser cannot draw the episode: ${problem.message}. It needs WebGL.`;
    box.hidden = false;
  });
})();
