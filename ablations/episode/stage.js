"use strict";
// One scene and its camera, drawn with three.js. z is up, lengths are metres, quaternions w first.

const FIELD_OF_VIEW = 32; // degrees, of the shorter side

// The frames of a run from its differences in time, which begin at `start`.
function unpack(numbers, start, run, resolution) {
  const count = run.frames, size = run.trees.length * 7 * count;
  const values = new Float32Array(size);
  for (let i = 0, sum = 0; i < size; i++) {
    sum = i % count ? sum + numbers[start + i] : numbers[start + i];
    values[i] = sum * resolution;
  }
  return { value: (body, component, t) => values[(body * 7 + component) * count + t], end: start + size, last: count - 1 };
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
  made.setAttribute("position", new THREE.Float32BufferAttribute(geom.vertices.flat(), 3));
  made.setIndex(geom.faces.flat());
  const flat = made.toNonIndexed();
  flat.computeVertexNormals();
  return flat;
}

const nice = (length) => {
  const power = 10 ** Math.floor(Math.log10(length));
  return power * ([5, 2, 1].find((one) => one * power <= length * 1.0001) || 1);
};

class Stage {
  constructor(THREE, run, frames, radius) {
    Object.assign(this, { THREE, run, frames, radius, tile: nice(0.6 * radius), floors: [], painted: [] });
    this.scene = new THREE.Scene();
    this.camera = new THREE.PerspectiveCamera(FIELD_OF_VIEW);
    this.camera.up.set(0, 0, 1);
    Object.assign(this.camera, { near: radius / 50, far: radius * 200 });
    this.bodies = run.trees.map(() => new THREE.Group());
    this.scene.add(...this.bodies);
    this.lights();
    for (const geom of run.geoms) this.add(geom);
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
    const { THREE, frames, run } = this;
    const clamped = Math.min(Math.max(time, 0), frames.last);
    const before = Math.floor(clamped), after = Math.min(before + 1, frames.last), share = clamped - before;
    const turn = new THREE.Quaternion(), next = new THREE.Quaternion();
    const mix = (value) => value(before) * (1 - share) + value(after) * share;
    const rotation = (into, body, t) => into.set(frames.value(body, 4, t), frames.value(body, 5, t), frames.value(body, 6, t), frames.value(body, 3, t)).normalize();
    this.bodies.forEach((group, body) => {
      group.position.set(...[0, 1, 2].map((axis) => mix((t) => frames.value(body, axis, t))));
      group.quaternion.copy(rotation(turn, body, before).slerp(rotation(next, body, after), share));
    });
    return new THREE.Vector3(...[0, 1, 2].map((axis) => mix((t) => run.targets[t][axis])));
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
