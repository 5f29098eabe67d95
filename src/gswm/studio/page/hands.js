// Direct manipulation: drag, throw and resize objects, and act on the selected one.

import { arrow, corners, ghost } from "./draw.js";
import { branch, color, frameAt, store } from "./store.js";

const FASTEST = 0.2; // per frame; the model cannot follow faster objects
const FLICK = 1 / 30; // seconds of pointer motion that become one frame of object motion
const AIM = 0.28; // fraction of the arrow's length per frame
const RECENT = 110; // ms of pointer motion that determine the speed of a throw
const SLOW = 0.02; // a slower release moves the object without throwing it

export class Hands {
  constructor(canvas, { edit, redraw, pause }) {
    Object.assign(this, { canvas, edit, redraw, pause, held: null, mode: null, request: 0 });
    canvas.addEventListener("pointerdown", (event) => this.down(event));
    canvas.addEventListener("pointermove", (event) => this.move(event));
    canvas.addEventListener("pointerup", (event) => this.up(event));
    canvas.addEventListener("pointercancel", () => this.drop());
  }

  at(event) {
    const box = this.canvas.getBoundingClientRect();
    return [(2 * (event.clientX - box.left)) / box.width - 1, (2 * (event.clientY - box.top)) / box.height - 1];
  }

  objects() {
    return (frameAt(branch(), store.future, store.frame)?.objects ?? []).filter((object) => object.there);
  }

  selected() {
    return this.objects().find((object) => object.id === store.selected) ?? null;
  }

  // The frontmost object under the pointer.
  under([x, y]) {
    const near = 0.03;
    const inside = (o) => Math.abs(x - o.x) < o.w + near && Math.abs(y - o.y) < o.h + near;
    const found = this.objects().filter(inside).sort((a, b) => b.depth - a.depth);
    return found.find((object) => object.id === store.selected) ?? found[0] ?? null;
  }

  corner([x, y]) {
    const object = this.selected();
    if (!object) return false;
    const reach = 0.05;
    return Math.abs(Math.abs(x - object.x) - object.w) < reach && Math.abs(Math.abs(y - object.y) - object.h) < reach;
  }

  down(event) {
    if (event.button || !store.opened?.edits) return;
    const at = this.at(event);
    const resize = this.corner(at);
    const object = resize ? this.selected() : this.under(at);
    if (this.mode === "look" && object && this.selected() && object.id !== store.selected) {
      this.mode = null;
      this.edit({ kind: "look", id: store.selected, other: object.id });
      return;
    }
    if (!object && this.mode !== "throw") {
      store.selected = -1;
      this.redraw();
      return;
    }
    this.pause();
    const mine = this.mode === "throw" ? this.selected() : object;
    if (!mine) return;
    store.selected = mine.id;
    this.canvas.setPointerCapture(event.pointerId);
    const aims = event.shiftKey || this.mode === "throw";
    this.held = {
      kind: resize ? "resize" : aims ? "aim" : "drag", object: mine, from: at, to: at, live: null,
      offset: [at[0] - mine.x, at[1] - mine.y], samples: [[event.timeStamp, ...at]], moved: false,
    };
    this.redraw();
  }

  move(event) {
    const at = this.at(event);
    if (!this.held) {
      const style = this.canvas.classList;
      style.toggle("resize", this.corner(at));
      style.toggle("grab", !!this.under(at));
      return;
    }
    const held = this.held;
    held.to = at;
    held.samples.push([event.timeStamp, ...at]);
    held.now = event.timeStamp;
    held.moved ||= Math.hypot(at[0] - held.from[0], at[1] - held.from[1]) > 0.015;
    if (held.moved) this.live();
    this.redraw();
  }

  change(final) {
    const { kind, object, to, offset } = this.held;
    const place = [clamp(to[0] - offset[0], 1.2), clamp(to[1] - offset[1], 1.2)];
    if (kind === "resize") {
      const size = (v, of) => Math.max(0.05, Math.min(1, Math.abs(v - of)));
      return { kind: "resize", id: object.id, hw: [size(to[1], object.y), size(to[0], object.x)] };
    }
    if (kind === "aim") {
      return { kind: "throw", id: object.id, xy: [object.x, object.y], velocity: this.velocity() };
    }
    const velocity = this.velocity();
    if (final && store.frame > 0 && Math.hypot(...velocity) > SLOW) {
      return { kind: "throw", id: object.id, xy: place, velocity };
    }
    return { kind: "move", id: object.id, xy: place };
  }

  // The velocity per frame, from the pointer's speed or the arrow's length.
  velocity() {
    const { kind, object, to, samples } = this.held;
    let found;
    if (kind === "aim") {
      found = [AIM * (to[0] - object.x), AIM * (to[1] - object.y)];
    } else {
      const recent = samples.filter(([time]) => this.held.now - time < RECENT);
      if (recent.length < 2) return [0, 0];
      const [first, last] = [recent[0], recent.at(-1)];
      const seconds = Math.max(0.016, (last[0] - first[0]) / 1000);
      found = [1, 2].map((i) => ((last[i] - first[i]) / seconds) * FLICK);
    }
    const most = Math.max(...found.map(Math.abs)) / FASTEST;
    return most > 1 ? found.map((v) => v / most) : found;
  }

  // At most one preview per animation frame, for the latest position only.
  live() {
    if (this.waits || this.held.kind === "aim" && store.frame === 0) return;
    this.waits = requestAnimationFrame(() => {
      this.waits = 0;
      if (this.held) this.edit(this.change(false), true);
    });
  }

  up(event) {
    if (!this.held) return;
    this.held.now = event.timeStamp;
    const { moved } = this.held;
    const change = moved ? this.change(true) : null;
    this.drop();
    if (change) this.edit(change);
    this.redraw();
  }

  drop() {
    cancelAnimationFrame(this.waits);
    this.waits = 0;
    this.held = null;
    this.mode = null;
    this.redraw();
  }

  // Actions of buttons and keys.
  act(what, amount = 1) {
    const object = this.selected();
    if (!object || !store.opened.edits) return;
    const order = this.objects().sort((a, b) => b.depth - a.depth);
    const rank = order.indexOf(object);
    const { id, x, y, h, w } = object;
    const acts = {
      remove: () => this.edit({ kind: "remove", id }),
      duplicate: () => this.edit({ kind: "duplicate", id, xy: [x > 0 ? x - 2 * w : x + 2 * w, y] }),
      forward: () => rank > 0 && this.edit({ kind: "depth", id, depth: Math.min(1e3, order[rank - 1].depth + 1) }),
      back: () => rank < order.length - 1 && this.edit({ kind: "depth", id, depth: Math.max(-1e3, order[rank + 1].depth - 1) }),
      larger: () => this.edit({ kind: "resize", id, hw: [Math.min(1, h * 1.15), Math.min(1, w * 1.15)] }),
      smaller: () => this.edit({ kind: "resize", id, hw: [Math.max(0.05, h / 1.15), Math.max(0.05, w / 1.15)] }),
      nudge: () => this.edit({ kind: "move", id, xy: [clamp(x + 0.06 * amount[0], 1.2), clamp(y + 0.06 * amount[1], 1.2)] }),
      toss: () => this.edit({ kind: "throw", id, xy: [x, y], velocity: amount.map((v) => 0.12 * v) }),
      throw: () => this.toggle("throw"),
      look: () => this.toggle("look"),
    };
    acts[what]();
  }

  toggle(mode) {
    this.mode = this.mode === mode ? null : mode;
    this.redraw();
  }

  // Draw handles, arrows and the previous position.
  draw(pen) {
    const object = this.selected();
    const side = pen.canvas.width;
    if (object && !this.held) {
      const at = corners(object, side);
      pen.fillStyle = "#fff";
      pen.strokeStyle = "#000";
      pen.lineWidth = 1;
      for (const [sx, sy] of [[0, 0], [1, 0], [0, 1], [1, 1]]) {
        pen.beginPath();
        pen.rect(at.left + sx * at.width - 4, at.top + sy * at.height - 4, 8, 8);
        pen.fill();
        pen.stroke();
      }
    }
    if (!this.held?.moved) return;
    const { kind, object: mine, to, offset } = this.held;
    ghost(pen, branch(), store.future, mine.id);
    const place = kind === "aim" ? [mine.x, mine.y] : [to[0] - offset[0], to[1] - offset[1]];
    const velocity = this.velocity();
    if (kind !== "resize" && Math.hypot(...velocity) > SLOW) {
      arrow(pen, place, place.map((v, i) => v + 4 * velocity[i]), color(mine.id));
    }
  }
}

const clamp = (value, most) => Math.max(-most, Math.min(most, value));
