"use strict";
// One scene and its camera, drawn with three.js. z is up, lengths are metres, quaternions w first.

const FIELD_OF_VIEW = 32; // degrees, of the shorter side

// The frames of a run: at(t) gives positions and rotations of all bodies between two steps.
function unpack(bytes, start, run, bodies, resolution) {
  const count = run.frames, size = bodies * 7 * count;
  const values = new Float32Array(size);
  for (let channel = 0; channel < bodies * 7; channel++) {
    let sum = 0;
    for (let t = 0; t < count; t++) {
      const i = start + channel * count + t;
      sum += bytes[i] | (bytes[i + size] << 8) | (bytes[i + 2 * size] << 16) | (bytes[i + 3 * size] << 24);
      values[channel * count + t] = sum * resolution;
    }
  }
  return { value: (body, component, t) => values[(body * 7 + component) * count + t], end: start + 4 * size, last: count - 1 };
}

function geometry(THREE, geom) {
  const [a, b, c] = geom.size;
  const upright = (made) => made.rotateX(Math.PI / 2); // three's axis is y, MuJoCo's z
  if (geom.kind === "sphere") return new THREE.SphereGeometry(a, 40, 24);
  if (geom.kind === "capsule") return upright(new THREE.CapsuleGeometry(a, 2 * b, 14, 32));
  if (geom.kind === "cylinder") return upright(new THREE.CylinderGeometry(a, a, 2 * b, 40));
  if (geom.kind === "box") return new THREE.BoxGeometry(2 * a, 2 * b, 2 * c);
  if (geom.kind === "ellipsoid") return new THREE.SphereGeometry(1, 40, 24).scale(a, b, c);
  const made = new THREE.BufferGeometry();
  made.setAttribute("position", new THREE.Float32BufferAttribute(geom.vertices, 3));
  made.setIndex(geom.faces);
  const flat = made.toNonIndexed();
  flat.computeVertexNormals();
  return flat;
}

function reach(geom) {
  const [a, b, c] = geom.size;
  if (geom.kind === "sphere") return a;
  if (geom.kind === "capsule") return a + b;
  if (geom.kind === "cylinder") return Math.hypot(a, b);
  if (geom.kind === "box") return Math.hypot(a, b, c);
  return Math.max(a, b, c);
}

const nice = (length) => {
  const power = 10 ** Math.floor(Math.log10(length));
  return power * ([5, 2, 1].find((one) => one * power <= length * 1.0001) || 1);
};

// What the camera looks at over the episode, from where, and how much it must show.
function framing(THREE, run, frames, timestep) {
  const moving = run.geoms.filter((geom) => geom.body >= 0);
  const trunk = run.trees.map((tree, body) => (tree === 0 ? body : -1)).filter((body) => body >= 0);
  const middle = [0, 1, 2].map((axis) => Float64Array.from({ length: frames.last + 1 }, (_, t) =>
    trunk.reduce((sum, body) => sum + frames.value(body, axis, t), 0) / trunk.length));
  const ends = middle.map((line) => line.reduce(([low, high], one) => [Math.min(low, one), Math.max(high, one)], [Infinity, -Infinity]));
  const every = Math.max(1, Math.floor((frames.last + 1) / 200));
  const own = new THREE.Vector3(), turn = new THREE.Quaternion();

  // The 90th percentile, so that one last tumble does not make all else small.
  const extent = (center) => {
    const found = [], high = [0, 1, 2].map(() => [Infinity, -Infinity]);
    for (let t = 0; t <= frames.last; t += every) {
      let far = 0;
      for (const geom of moving) {
        turn.set(frames.value(geom.body, 4, t), frames.value(geom.body, 5, t), frames.value(geom.body, 6, t), frames.value(geom.body, 3, t));
        own.set(...geom.position).applyQuaternion(turn);
        const place = own.toArray().map((one, axis) => one + frames.value(geom.body, axis, t) - center(axis, t));
        far = Math.max(far, Math.hypot(...place) + reach(geom));
        place.forEach((one, axis) => { high[axis] = [Math.min(high[axis][0], one - geom.size[0]), Math.max(high[axis][1], one + geom.size[0])]; });
      }
      found.push(far);
    }
    found.sort((one, other) => one - other);
    return [found[Math.floor(0.9 * (found.length - 1))], high.map(([low, top]) => top - low)];
  };

  const height = Float64Array.from(middle[2]).sort()[Math.floor(frames.last / 2)];
  const standing = (axis) => (axis === 2 ? height : (ends[axis][0] + ends[axis][1]) / 2);
  let [radius, spread] = extent((axis, t) => (axis === 2 ? height : middle[axis][t]));
  const follows = Math.max(...[0, 1].map((axis) => ends[axis][1] - ends[axis][0])) > 1.5 * radius;
  let look = (axis) => standing(axis);
  if (follows) {
    const half = Math.max(1, Math.round(0.3 / timestep));
    const smooth = middle.map((line) => line.map((_, t) => {
      const low = Math.max(0, t - half), high = Math.min(frames.last, t + half);
      let sum = 0;
      for (let i = low; i <= high; i++) sum += line[i];
      return sum / (high - low + 1);
    }));
    look = (axis, t) => (axis === 2 ? height : smooth[axis][t]);
  } else {
    [radius, spread] = extent(look);
  }
  // What moves in a plane is looked at from above that plane.
  const flat = spread[2] < 0.25 * Math.max(spread[0], spread[1]);
  return { look, radius, follows, home: { azimuth: -62, elevation: flat ? 52 : 14, zoom: 1 } };
}

class Stage {
  constructor(THREE, run, frames, timestep) {
    Object.assign(this, { THREE, run, frames, ...framing(THREE, run, frames, timestep) });
    this.scene = new THREE.Scene();
    this.camera = new THREE.PerspectiveCamera(FIELD_OF_VIEW);
    this.camera.up.set(0, 0, 1);
    this.bodies = run.trees.map(() => new THREE.Group());
    this.scene.add(...this.bodies);
    this.floors = [];
    this.painted = [];
  }

  // Builds everything for views of this radius.
  fit(radius) {
    this.radius = radius;
    this.tile = nice(0.6 * radius);
    Object.assign(this.camera, { near: radius / 50, far: radius * 200 });
    this.lights();
    for (const geom of this.run.geoms) this.add(geom);
  }

  lights() {
    const { THREE, radius } = this;
    this.scene.add(new THREE.HemisphereLight(0xffffff, 0x8890a0, 0.62));
    this.sun = new THREE.DirectionalLight(0xffffff, 0.72);
    this.sun.castShadow = true;
    this.sun.shadow.mapSize.set(2048, 2048);
    const shadow = this.sun.shadow.camera, reach = 2.2 * radius;
    Object.assign(shadow, { left: -reach, right: reach, top: reach, bottom: -reach, near: 0.1 * radius, far: 14 * radius });
    this.sun.shadow.normalBias = 0.004 * radius;
    this.sun.shadow.radius = 3;
    this.scene.add(this.sun, this.sun.target);
  }

  add(geom) {
    const { THREE } = this;
    if (geom.kind === "plane") { this.floor(geom); return; }
    const material = new THREE.MeshStandardMaterial({ roughness: 0.55, metalness: 0 });
    if (geom.color && geom.color[3] < 1) Object.assign(material, { transparent: true, opacity: geom.color[3] });
    const mesh = new THREE.Mesh(geometry(THREE, geom), material);
    this.place(mesh, geom);
    mesh.castShadow = mesh.receiveShadow = true;
    (geom.body < 0 ? this.scene : this.bodies[geom.body]).add(mesh);
    this.painted.push([material, geom]);
  }

  // A plane has no end; it fades into the background.
  floor(geom) {
    const { THREE, tile, radius } = this;
    const canvas = document.createElement("canvas");
    canvas.width = canvas.height = 128;
    const texture = new THREE.CanvasTexture(canvas);
    texture.wrapS = texture.wrapT = THREE.RepeatWrapping;
    texture.encoding = THREE.sRGBEncoding;
    texture.anisotropy = 8;
    const pairs = Math.ceil((40 * radius) / (2 * tile));
    texture.repeat.set(2 * pairs, 2 * pairs);
    const size = 4 * pairs * tile;
    const ground = new THREE.Mesh(new THREE.PlaneGeometry(size, size), new THREE.MeshBasicMaterial({ map: texture, polygonOffset: true, polygonOffsetFactor: 1, polygonOffsetUnits: 1 }));
    const shade = new THREE.Mesh(ground.geometry, new THREE.ShadowMaterial());
    shade.receiveShadow = true;
    const holder = new THREE.Group();
    holder.add(ground, shade);
    this.place(holder, geom);
    this.scene.add(holder);
    this.floors.push({ holder, canvas, texture, shade, geom });
  }

  place(object, geom) {
    const [w, x, y, z] = geom.rotation;
    object.position.set(...geom.position);
    object.quaternion.set(x, y, z, w);
  }

  // Colours follow the theme: css(name) gives a custom property, ink the run's own colour.
  paint(css, ink) {
    const { THREE } = this;
    const color = (text) => new THREE.Color(text).convertSRGBToLinear();
    // three r140 applies both after the encoding: as they are on the screen.
    this.scene.background = new THREE.Color(css("--stage"));
    this.scene.fog = new THREE.Fog(css("--stage"), 1, 2);
    for (const [material, geom] of this.painted) {
      if (geom.color) material.color = new THREE.Color(...geom.color.slice(0, 3)).convertSRGBToLinear();
      else if (geom.body < 0) material.color = color(css("--fixed"));
      else {
        const own = new THREE.Color(this.run.trees[geom.body] === 0 ? ink : css("--v5"));
        material.color = own.offsetHSL(0, 0, [0.05, -0.03, 0.11][geom.body % 3]).convertSRGBToLinear();
      }
    }
    for (const { canvas, texture, shade } of this.floors) {
      const pen = canvas.getContext("2d");
      pen.fillStyle = css("--stage");
      pen.fillRect(0, 0, 128, 128);
      pen.fillStyle = css("--tile");
      pen.fillRect(0, 0, 64, 64);
      pen.fillRect(64, 64, 64, 64);
      texture.needsUpdate = true;
      shade.material.opacity = Number(css("--shade"));
    }
  }

  pose(time) {
    const { THREE, frames } = this;
    const clamped = Math.min(Math.max(time, 0), frames.last);
    const before = Math.floor(clamped), after = Math.min(before + 1, frames.last), share = clamped - before;
    const turn = new THREE.Quaternion(), next = new THREE.Quaternion();
    const mix = (value) => value(before) * (1 - share) + value(after) * share;
    const rotation = (into, body, t) => into.set(frames.value(body, 4, t), frames.value(body, 5, t), frames.value(body, 6, t), frames.value(body, 3, t)).normalize();
    this.bodies.forEach((group, body) => {
      group.position.set(...[0, 1, 2].map((axis) => mix((t) => frames.value(body, axis, t))));
      group.quaternion.copy(rotation(turn, body, before).slerp(rotation(next, body, after), share));
    });
    return new THREE.Vector3(...[0, 1, 2].map((axis) => mix((t) => this.look(axis, t))));
  }

  render(renderer, time, orbit, width, height) {
    const target = this.pose(time), { camera, radius } = this;
    const azimuth = (orbit.azimuth * Math.PI) / 180, elevation = (orbit.elevation * Math.PI) / 180;
    const aspect = width / height, half = Math.tan((FIELD_OF_VIEW * Math.PI) / 360);
    const distance = (orbit.zoom * 1.08 * radius) / Math.sin(Math.atan(half));
    camera.aspect = aspect;
    camera.fov = (2 * 180 * Math.atan(aspect < 1 ? half / aspect : half)) / Math.PI;
    camera.position.set(
      target.x + distance * Math.cos(elevation) * Math.cos(azimuth),
      target.y + distance * Math.cos(elevation) * Math.sin(azimuth),
      target.z + distance * Math.sin(elevation),
    );
    camera.lookAt(target);
    camera.updateProjectionMatrix();
    Object.assign(this.scene.fog, { near: distance * 1.3, far: distance * 1.3 + 14 * radius });
    this.sun.target.position.copy(target);
    this.sun.position.copy(target).add(new this.THREE.Vector3(-2, -2.6, 5.5).multiplyScalar(radius));
    for (const { holder, geom } of this.floors) {
      const step = 2 * this.tile; // the pattern stays where it is in the world
      const level = geom.rotation[0] > 0.999;
      if (level) holder.position.set(Math.round(target.x / step) * step, Math.round(target.y / step) * step, geom.position[2]);
    }
    renderer.render(this.scene, camera);
  }
}
