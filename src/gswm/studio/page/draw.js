// Draws frames and their overlays (boxes, trails, masks, regions) from object states.

import { branch, color, frameAt, isImagined, known, length, rgb, store } from "./store.js";

const TRAIL = 10;
const AHEAD = 12; // frames of each future's path to draw
const sheets = new Map(); // canvases at the resolution of the frames

function sheet(size) {
  if (!sheets.has(size)) {
    const canvas = document.createElement("canvas");
    canvas.width = canvas.height = size;
    const pen = canvas.getContext("2d", { willReadFrequently: true });
    sheets.set(size, { canvas, pen, data: pen.createImageData(size, size) });
  }
  return sheets.get(size);
}

// Match the resolution of a canvas to its size on screen.
export function fitted(canvas) {
  const ratio = devicePixelRatio || 1;
  const [width, height] = [canvas.clientWidth * ratio, canvas.clientHeight * ratio].map(Math.round);
  if (width && (canvas.width !== width || canvas.height !== height)) Object.assign(canvas, { width, height });
  const pen = canvas.getContext("2d");
  pen.imageSmoothingEnabled = false;
  return pen;
}

// Draw pixels, with an optional mask on top.
export function paint(pen, pixels, { mask = null, dim = 1 } = {}) {
  const { canvas, data, pen: own } = sheet(store.opened.size);
  const to = data.data;
  for (let i = 0, j = 0, p = 0; i < to.length; i += 4, j += 3, p++) {
    const owner = mask ? mask[p] : 255;
    if (owner === 255) {
      const faint = mask ? 0.45 * dim : dim;
      to[i] = pixels[j] * faint; to[i + 1] = pixels[j + 1] * faint; to[i + 2] = pixels[j + 2] * faint;
    } else {
      const [r, g, b] = rgb(owner);
      to[i] = 0.35 * pixels[j] + 0.65 * r; to[i + 1] = 0.35 * pixels[j + 1] + 0.65 * g; to[i + 2] = 0.35 * pixels[j + 2] + 0.65 * b;
    }
    to[i + 3] = 255;
  }
  own.putImageData(data, 0, 0);
  pen.drawImage(canvas, 0, 0, pen.canvas.width, pen.canvas.height);
}

export function corners(object, side, { x, y, h, w } = object) {
  const [cx, cy] = [((x + 1) / 2) * side, ((y + 1) / 2) * side];
  return { left: cx - (w * side) / 2, top: cy - (h * side) / 2, width: w * side, height: h * side, cx, cy };
}

function boxes(pen, objects) {
  const side = pen.canvas.width;
  const small = side < 260;
  const { toggles, selected } = store;
  const order = objects.filter((o) => o.there).sort((a, b) => b.depth - a.depth);
  for (const object of objects) {
    if (!object.there && !(toggles.presence && object.presence > 0.02)) continue;
    const at = corners(object, side);
    const mine = object.id === selected && object.there;
    if (toggles.boxes || mine) {
      pen.setLineDash(object.there ? [] : [3, 3]);
      pen.lineWidth = mine ? 3 : small ? 1 : 2;
      pen.strokeStyle = "rgb(0 0 0 / .55)";
      pen.strokeRect(at.left - 1.5, at.top - 1.5, at.width + 3, at.height + 3);
      pen.strokeStyle = object.there ? color(object.id) : "rgb(255 255 255 / .5)";
      pen.strokeRect(at.left, at.top, at.width, at.height);
      pen.setLineDash([]);
    }
    const words = [];
    if (toggles.ids && object.there) words.push(`${object.id}`);
    if (toggles.depth && object.there) words.push(`↑${order.indexOf(object) + 1}`);
    if (toggles.presence) words.push(object.presence.toFixed(2));
    if (words.length && !small) plate(pen, words.join(" "), at, object);
  }
}

function plate(pen, text, at, object) {
  const size = Math.max(11, Math.round(pen.canvas.width / 34));
  pen.font = `600 ${size}px system-ui, sans-serif`;
  pen.textBaseline = "middle";
  const width = pen.measureText(text).width + 0.7 * size;
  const left = Math.max(0, Math.min(at.left - 1, pen.canvas.width - width));
  const top = Math.max(0, at.top - 1.35 * size);
  pen.fillStyle = object.there ? color(object.id) : "rgb(200 200 200)";
  pen.beginPath();
  pen.roundRect(left, top, width, 1.3 * size, [3, 3, 3, 0]);
  pen.fill();
  pen.fillStyle = "#000";
  pen.fillText(text, left + 0.35 * size, top + 0.68 * size);
}

// The path of every object through some frames: {id: [[x, y], ...]}.
export function ways(list) {
  const found = new Map();
  for (const frame of list) {
    for (const object of frame?.objects ?? []) {
      if (!object.there) continue;
      if (!found.has(object.id)) found.set(object.id, []);
      found.get(object.id).push([object.x, object.y]);
    }
  }
  return found;
}

function line(pen, points, style, width, dash = []) {
  const side = pen.canvas.width;
  pen.strokeStyle = style;
  pen.lineWidth = width;
  pen.lineJoin = pen.lineCap = "round";
  pen.setLineDash(dash);
  pen.beginPath();
  for (const [x, y] of points) pen.lineTo(((x + 1) / 2) * side, ((y + 1) / 2) * side);
  pen.stroke();
  pen.setLineDash([]);
}

function trails(pen, at, t) {
  const list = [];
  for (let s = Math.max(0, t - TRAIL); s <= t; s++) list.push(at(s));
  for (const [id, points] of ways(list)) {
    for (let i = 1; i < points.length; i++) {
      line(pen, points.slice(i - 1, i + 1), color(id, (0.85 * i) / points.length), Math.max(1, pen.canvas.width / 130));
    }
  }
}

function regions(pen, objects) {
  pen.setLineDash([2, 4]);
  pen.lineWidth = 1.5;
  for (const object of objects) {
    if (!object.there || !object.pw) continue;
    const at = corners(object, pen.canvas.width, { x: object.px, y: object.py, h: object.ph, w: object.pw });
    pen.strokeStyle = color(object.id, 0.9);
    pen.strokeRect(at.left, at.top, at.width, at.height);
  }
  pen.setLineDash([]);
}

export function nothing(pen, text) {
  pen.fillStyle = "#000";
  pen.fillRect(0, 0, pen.canvas.width, pen.canvas.height);
  pen.fillStyle = "#777";
  pen.font = `${Math.max(11, pen.canvas.width / 28)}px system-ui, sans-serif`;
  pen.textAlign = "center";
  pen.fillText(text, pen.canvas.width / 2, pen.canvas.height / 2);
  pen.textAlign = "start";
}

// Draw one frame with the enabled overlays. `at(t)` returns frames; masks belong to a branch.
export function scene(canvas, at, t, { mask = null, waiting = "…" } = {}) {
  const pen = fitted(canvas);
  const frame = at(t);
  if (!frame) return nothing(pen, waiting);
  const { toggles } = store;
  if (toggles.background && frame.objects) {
    const black = (scene.black ??= new Uint8Array(store.opened.size ** 2 * 3));
    paint(pen, frame.background ?? black);
  } else {
    paint(pen, frame.pixels, { mask: toggles.masks ? mask : null });
  }
  if (!frame.objects) return undefined;
  if (toggles.trails) trails(pen, at, t);
  if (toggles.regions) regions(pen, frame.objects);
  boxes(pen, frame.objects);
  return pen;
}

// The paths of all objects in all futures, with one future highlighted.
export function together(canvas, which, t) {
  const pen = fitted(canvas);
  const frame = frameAt(which, store.future, t);
  if (!frame) return nothing(pen, "imagining…");
  paint(pen, frame.pixels, { dim: 0.3 });
  const count = which.futures[0]?.length ?? 0;
  const width = Math.max(1, pen.canvas.width / 260);
  const start = Math.max(which.frame, t - AHEAD);
  const end = Math.min(known(which) - 1, Math.max(t, which.frame + AHEAD));
  for (let future = 0; future < count; future++) {
    const out = store.hover < 0 || store.hover === future;
    const list = [];
    for (let s = start; s <= end; s++) list.push(frameAt(which, future, s));
    const strong = store.hover === future ? 1 : out ? Math.max(0.2, 1 / Math.sqrt(count)) : 0.05;
    for (const [id, points] of ways(list)) line(pen, points, color(id, strong), store.hover === future ? 3 * width : 1.5 * width);
  }
  for (let future = 0; future < Math.max(1, count); future++) {
    const now = frameAt(which, future, t);
    for (const object of now?.objects ?? []) {
      if (!object.there) continue;
      const { cx, cy } = corners(object, pen.canvas.width);
      const out = store.hover < 0 || store.hover === future;
      pen.beginPath();
      pen.arc(cx, cy, store.hover === future ? 5 * width : 3.2 * width, 0, 7);
      pen.fillStyle = color(object.id, out ? 0.95 : 0.15);
      pen.fill();
      pen.lineWidth = 1;
      pen.strokeStyle = "rgb(0 0 0 / .5)";
      pen.stroke();
    }
  }
}

// The paths of the other branch, thin and dashed; only those of one object if its id is passed.
export function ghost(pen, other, future, only = null) {
  const list = [];
  for (let s = Math.max(0, store.frame - TRAIL); s <= Math.min(length() - 1, store.frame + AHEAD); s++) list.push(frameAt(other, future, s));
  for (const [id, points] of ways(list)) if (only === null || id === only) line(pen, points, color(id, 0.5), 1.5, [2, 5]);
}

// The imagined paths from here on, with that of the selected object highlighted.
export function ahead(pen, which, future, from) {
  const list = [];
  for (let s = from; s <= Math.min(length() - 1, from + AHEAD); s++) list.push(frameAt(which, future, s));
  for (const [id, points] of ways(list)) {
    const mine = id === store.selected;
    line(pen, points, color(id, mine ? 1 : 0.35), mine ? 3 : 1.5);
    if (!mine) continue;
    for (const [x, y] of points) dot(pen, x, y, 3, color(id));
  }
}

function dot(pen, x, y, radius, style) {
  const side = pen.canvas.width;
  pen.fillStyle = style;
  pen.beginPath();
  pen.arc(((x + 1) / 2) * side, ((y + 1) / 2) * side, radius, 0, 7);
  pen.fill();
}

export function arrow(pen, from, to, style) {
  const side = pen.canvas.width;
  const [ax, ay, bx, by] = [...from, ...to].map((v) => ((v + 1) / 2) * side);
  const angle = Math.atan2(by - ay, bx - ax);
  const head = side / 26;
  if (Math.hypot(bx - ax, by - ay) < 3) return;
  pen.strokeStyle = pen.fillStyle = style;
  pen.lineWidth = side / 110;
  pen.lineCap = "round";
  pen.beginPath();
  pen.moveTo(ax, ay);
  pen.lineTo(bx, by);
  pen.stroke();
  pen.beginPath();
  pen.moveTo(bx + (head / 2) * Math.cos(angle), by + (head / 2) * Math.sin(angle));
  for (const turn of [2.6, -2.6]) pen.lineTo(bx + head * Math.cos(angle + turn), by + head * Math.sin(angle + turn));
  pen.fill();
}

export function tile(canvas, which, future, t) {
  const frame = frameAt(which, future, t);
  const pen = fitted(canvas);
  if (!frame) return nothing(pen, "");
  paint(pen, frame.pixels, { dim: isImagined(which, t) ? 1 : 0.6 });
}

export function timeline(canvas) {
  const pen = fitted(canvas);
  const ratio = devicePixelRatio || 1;
  const { width, height } = canvas;
  const style = getComputedStyle(document.documentElement);
  const tone = (name) => { pen.fillStyle = style.getPropertyValue(name); return resolved(pen.fillStyle, name); };
  pen.clearRect(0, 0, width, height);
  const which = store.preview ?? branch();
  const total = length();
  const x = (t) => ((t + 0.5) / total) * width;
  const [top, bar] = [16 * ratio, 12 * ratio];
  const part = (from, to, fill, alpha) => {
    pen.globalAlpha = alpha;
    pen.fillStyle = fill;
    pen.beginPath();
    pen.roundRect((from / total) * width + ratio, top, ((to - from) / total) * width - 2 * ratio, bar, 3 * ratio);
    pen.fill();
    pen.globalAlpha = 1;
  };
  part(which.frame + 1, total, tone("--imagined"), 0.16);
  if (which.futures.length) part(which.frame + 1, known(which), tone("--imagined"), 0.85);
  part(0, which.frame + 1, tone("--given"), 0.85);
  pen.font = `${10.5 * ratio}px system-ui, sans-serif`;
  pen.textBaseline = "alphabetic";
  for (let t = 0; t < total; t += total > 60 ? 10 : 5) {
    pen.fillStyle = tone("--faint");
    pen.fillText(t, x(t) - 3 * ratio * String(t).length, height - 3 * ratio);
  }
  pen.fillStyle = tone("--soft");
  pen.fillText(which.frame + 1 > 3 ? "given" : "", ratio, 11 * ratio);
  pen.fillStyle = tone("--imagined");
  pen.fillText("imagined", ((which.frame + 1) / total) * width + ratio, 11 * ratio);
  for (let each = which; each?.edit; each = branch(each.edit.branch)) {
    const at = x(each.frame);
    pen.fillStyle = tone("--ink");
    pen.beginPath();
    for (const [dx, dy] of [[0, -6], [6, 0], [0, 6], [-6, 0]]) pen.lineTo(at + dx * ratio, top + bar / 2 + dy * ratio);
    pen.fill();
  }
  const now = x(store.frame);
  pen.fillStyle = tone("--ink");
  pen.beginPath();
  pen.roundRect(now - 1.5 * ratio, top - 5 * ratio, 3 * ratio, bar + 10 * ratio, 2 * ratio);
  pen.fill();
}

// Resolve light-dark(), which canvases do not support.
const probe = document.createElement("i");
function resolved(_, name) {
  probe.hidden = true;
  if (!probe.isConnected) document.body.append(probe);
  probe.style.color = `var(${name})`;
  return getComputedStyle(probe).color;
}
