// The page: turns messages into state and user actions into messages, and draws the state.

import { ahead, ghost, scene, timeline, together } from "./draw.js";
import { Hands } from "./hands.js";
import { keys } from "./keys.js";
import { address, Link } from "./link.js";
import * as panels from "./panels.js";
import { $, toast } from "./panels.js";
import {
  asFrames, asFutures, asView, branch, FPS, frameAt, isImagined, known, length, nameOf, newBranch, objectsOf, packed, rowsOf, store, tidy, unpacked, unseenBranch, view,
} from "./store.js";

const canvases = Object.fromEntries(["imagined", "beside", "truth", "seen"].map((name) => [name, $(`#pane-${name} canvas`)]));
let dirty = 0;
let request = 0;
let fallen = false; // the requested view could not be opened, so the default is shown
let begins = false; // show and play the next view from its first frame
let follows = false; // show and play the next branch as soon as it arrives

// Drawing

function redraw() {
  dirty ||= requestAnimationFrame(() => { dirty = 0; if (store.opened) draw(); });
}

function draw() {
  const t = store.frame;
  const shown = store.preview ?? branch();
  const at = (s) => frameAt(shown, store.preview ? 0 : store.future, s);
  const pen = scene(canvases.imagined, at, t, { mask: shown.masks?.[store.future]?.[t], waiting: "imagining…" });
  if (pen) {
    if (store.preview) ahead(pen, shown, 0, t);
    else if (store.toggles.trails && store.beside === "before" && other()) ghost(pen, other(), otherFuture());
    hands.draw(pen);
  }
  const what = panels.clock();
  label("#pane-imagined", what, isImagined(shown, t));
  drawBeside(t);
  drawTruth(t);
  timeline($("#timeline"));
  panels.objects(select);
  panels.tiles(pickFuture, (future) => { store.hover = future; redraw(); });
  $("#hand").hidden = !hands.selected() || !!hands.held || store.playing;
  for (const mode of ["throw", "look"]) $(`[data-do="${mode}"]`).classList.toggle("on", hands.mode === mode);
}

function drawBeside(t) {
  const before = store.beside === "before" && other();
  for (const tab of document.querySelectorAll("[data-beside]")) tab.classList.toggle("on", tab.dataset.beside === (before ? "before" : "futures"));
  $('[data-beside="before"]').disabled = !other();
  if (before) {
    scene(canvases.beside, (s) => frameAt(other(), otherFuture(), s), t, { mask: other().masks?.[otherFuture()]?.[t] });
    label("#pane-beside", nameOf(other()), isImagined(other(), t));
  } else {
    together(canvases.beside, branch(), t);
    label("#pane-beside", "possible positions", false);
  }
}

function drawTruth(t) {
  const count = store.truth.pixels.shape[0];
  scene(canvases.truth, (s) => store.truth.frames[s], t, { waiting: t >= count ? "end of the video" : "" });
  label("#pane-truth", t < count ? "" : "over", false);
  scene(canvases.seen, (s) => store.seen[s], t, { waiting: t >= count ? "end of the video" : "…" });
  label("#pane-seen", "", false);
}

function label(pane, words, imagined) {
  $(`${pane} .what`).textContent = words;
  $(pane).classList.toggle("imagined", imagined);
  $(pane).classList.toggle("given", !imagined);
}

const isUpload = (world) => world.startsWith("upload-");
const other = () => branch(store.compare) ?? null;
const otherFuture = () => (branch().edit?.branch === store.compare ? branch().edit.future : store.future);

// Receiving

const heard = {
  hello(message) {
    store.hello = message;
    $("#gone").hidden = true;
    listModels();
    listWorlds();
    const linked = !store.opened && location.hash.startsWith("#view=");
    const saved = store.opened ? view() : linked ? asView(unpacked(location.hash.slice(6))) : null;
    if (linked && !saved) toast("this link does not contain a saved view", true);
    restore(saved ?? message.start.view ?? { model: message.start.model, world: message.start.world });
  },
  opened(message) {
    const { model, world, episode, settings, size, edits } = message;
    const { wanted } = store;
    const first = !store.opened || wanted || begins;
    begins = false;
    panels.endView();
    const frames = rowsOf(message.pixels).map((pixels) => ({ pixels, objects: null }));
    Object.assign(store, { opened: { model, world, episode, settings, size, edits }, preview: null, seen: [], redo: [] });
    Object.assign(store, { truth: { pixels: message.pixels, frames }, branches: [unseenBranch(frames.slice(0, settings.given))] });
    Object.assign(store, { current: 0, compare: -1, future: 0, selected: -1, beside: "futures" });
    if (first) store.frame = wanted?.frame ?? 0;
    if (first && wanted?.frame === undefined && !matchMedia("(prefers-reduced-motion: reduce)").matches) store.playing = true;
    store.frame = Math.min(store.frame, length() - 1);
    if (wanted) wanted.frame = store.frame;
    [$("#model").value, $("#episode").value] = [model, episode];
    listWorlds();
    $("#world").value = world;
    $("#episode").disabled = $("#episode-back").disabled = $("#episode-on").disabled = isUpload(world);
    showSettings();
    changed();
  },
  truth(message) {
    rowsOf(message.objects).forEach((values, t) => { store.truth.frames[t].objects = objectsOf(values); });
    redraw();
  },
  branch(message) {
    fallen = false;
    store.preview = null;
    store.branches[message.branch] = newBranch(message);
    if (store.wanted) {
      if (message.branch < store.wanted.edits.length) return;
      restored();
    } else if (message.edit && message.request === request) {
      arrive(message.branch);
    }
    changed();
  },
  preview(message) {
    if (message.at !== undefined) return void (store.preview?.futures.push(...asFutures(message)), redraw());
    if (hands.held) store.preview = newBranch(message);
    redraw();
  },
  futures(message) {
    const which = branch(message.branch);
    if (!which) return;
    if (message.at === which.frame + 1) which.futures = [];
    which.futures.push(...asFutures(message));
    store.future = Math.min(store.future, which.futures[0].length - 1);
    tidy();
    redraw();
  },
  seen(message) {
    const root = branch(0);
    asFrames(message).forEach((frame, i) => {
      store.seen[message.at + i] = frame;
      if (root.unseen) root.own[message.at + i] = frame;
    });
    redraw();
  },
  masks(message) {
    const masks = ((branch(message.branch).masks ??= {})[message.future] ??= []);
    rowsOf(message.owners).forEach((owners, i) => { masks[message.at + i] = owners; });
    redraw();
  },
  done(message) {
    $("#speed").textContent = `first frame after ${Math.round(message.first_ms)} ms, ${Math.round(message.frames_per_second)} frames/s on ${store.hello.device}`;
    if (message.kind !== "futures") return;
    if (branch(message.branch)) branch(message.branch).done = true;
    document.body.dataset.done = message.branch;
    askMasks();
    fetchMissing();
  },
  note(message) {
    toast(message.line, true, true);
  },
  file(message) {
    save(message.name, message.data.values);
  },
  error(message) {
    store.preview = null;
    toast(message.line, true);
    if (message.of === "open") refused();
    else if (message.of === "edits") { restored(); changed(); }
    redraw();
  },
};

// Sending

// Opening failed: keep the current view, or open the default one if there is none.
function refused() {
  store.wanted = null;
  begins = false;
  if (branch(0) && !branch(0).unseen) {
    $("#model").value = store.opened.model;
    listWorlds();
    showSettings();
  } else if (!fallen) {
    fallen = true;
    restore({ model: store.hello.start.model, world: store.hello.start.world });
  }
}

function restore(saved) {
  const { model, episode = 0, edits = [], toggles } = saved;
  const { given = 10, steps = 40 } = store.hello.models.find(({ name }) => name === model) ?? {};
  Object.assign(store.toggles, toggles);
  panels.toggles(toggled);
  store.wanted = { ...saved, episode, edits, settings: saved.settings ?? { given, steps, futures: 8 } };
  open(store.wanted);
}

// All branches of the restored view have arrived, perhaps without its last edits.
function restored() {
  if (!store.wanted) return;
  const { current = 0, compare = -1, future = 0, beside = "futures" } = store.wanted;
  Object.assign(store, { wanted: null, current: Math.min(current, store.branches.length - 1), compare, future, beside });
}

function open({ model, world, episode, settings, edits = [], current = 0 }) {
  store.playing = false;
  delete document.body.dataset.done;
  link.say({ type: "open", model, world, episode, settings, edits, current });
}

// Change settings and keep the edits.
function reopen(change) {
  const saved = view();
  store.wanted = { ...saved, frame: store.frame, settings: { ...saved.settings, ...change } };
  open(store.wanted);
}

function another(change) {
  store.wanted = null;
  const { model, world, episode, settings } = store.opened;
  open({ model, world, episode, settings, ...change });
}

function edit(change, live = false) {
  request += 1;
  store.playing = false;
  link.say({ type: "edit", branch: store.current, future: store.future, frame: store.frame, change, live, request });
  if (!live) {
    follows = change.kind === "throw";
    delete document.body.dataset.done;
  }
}

// Make a new branch the current one, and show its parent beside it.
function arrive(number) {
  Object.assign(store, { compare: store.current, beside: "before", redo: [], current: number, future: 0 });
  if (branch().edit.change.kind === "remove") store.selected = -1;
  if (follows) store.playing = true;
  follows = false;
}

function go(number) {
  store.current = number;
  store.future = Math.min(store.future, (branch().futures[0]?.length ?? 1) - 1);
  branch().used = performance.now();
  fetchMissing();
  askMasks();
  changed();
}

// Request futures that were dropped or never finished.
function fetchMissing() {
  for (const number of [store.current, store.beside === "before" ? store.compare : -1]) {
    const which = branch(number);
    if (which && !which.unseen && !which.done && known(which) < length()) {
      link.say({ type: "show", branch: number });
      return;
    }
  }
}

function askMasks() {
  if (!store.toggles.masks) return;
  for (const [which, future] of [[branch(), store.future], [other(), other() ? otherFuture() : 0]]) {
    if (which?.done && !which.masks[future]) link.say({ type: "masks", branch: which.number, future });
  }
}

function toggled(name) {
  if (name === "masks") askMasks();
  remember();
  redraw();
}

function compare(number) {
  Object.assign(store, store.compare === number && store.beside === "before" ? { beside: "futures" } : { compare: number, beside: "before" });
  fetchMissing();
  changed();
}

function undo() {
  if (!branch()?.edit) return;
  store.redo.push(store.current);
  go(branch().edit.branch);
}

function redo() {
  if (store.redo.length) go(store.redo.pop());
}

function select(id) {
  store.selected = hands.objects().some((object) => object.id === id) ? id : -1;
  redraw();
}

function pickFuture(future) {
  store.future = future;
  askMasks();
  changed();
}

function seek(frame) {
  store.playing = false;
  store.frame = Math.max(0, Math.min(length() - 1, frame));
  remember();
  redraw();
}

function play() {
  store.playing = !store.playing;
  if (store.playing && store.frame >= length() - 1) store.frame = 0;
  redraw();
}

function changed() {
  panels.history({ go, compare });
  remember();
  redraw();
}

let remembers = 0;
function remember() {
  clearTimeout(remembers);
  remembers = setTimeout(() => {
    if (store.opened && !store.wanted) history.replaceState(null, "", `#view=${packed(view())}`);
  }, 300);
}

function listModels() {
  const groups = Map.groupBy ? Map.groupBy(store.hello.models, ({ group }) => group) : new Map([["models", store.hello.models]]);
  $("#model").replaceChildren(...[...groups].map(([label, models]) => {
    const group = Object.assign(document.createElement("optgroup"), { label });
    group.append(...models.map(({ name, line }) => Object.assign(new Option(name, name), { title: line })));
    return group;
  }));
}

function listWorlds() {
  const { worlds } = store.hello;
  const world = store.opened?.world;
  const more = world && !worlds.includes(world) ? [new Option("your video", world)] : [];
  $("#world").replaceChildren(...worlds.map((name) => new Option(name, name)), ...more);
  if (world) $("#world").value = world;
}

function save(name, data) {
  const url = URL.createObjectURL(new Blob([data]));
  Object.assign(document.createElement("a"), { href: url, download: name }).click();
  setTimeout(() => URL.revokeObjectURL(url), 10000);
  toast(`${name} is saved`);
}

function take(kind) {
  $("#take").open = false;
  toast(`exporting ${kind.toUpperCase()}…`);
  const beside = store.beside === "before" && other() ? store.compare : -1;
  link.say({ type: "export", kind, branch: store.current, future: store.future, compare: beside, boxes: store.toggles.boxes, trail: store.toggles.trails ? 8 : 0 });
}

async function receive(file) {
  if (!file) return;
  if (file.name.endsWith(".json")) {
    const saved = asView(unpackedJson(await file.text()));
    if (!saved) return void toast("this file does not contain a saved view", true);
    return void restore(saved);
  }
  toast(`reading ${file.name}…`);
  try {
    const answer = await fetch(address("/upload", { model: store.opened.model }), { method: "POST", body: file });
    const { error, name, frames, more, fps, model } = await answer.json();
    if (error) return void toast(error, true);
    const by = model === store.opened.model ? "" : `, seen by ${model}`;
    const taken = more ? `only the first ${frames} frames: cut the video to see later ones` : `${frames} frames`;
    toast(`${taken}${fps ? `, ${fps} a second` : ""}${by}`, more);
    store.opened = { ...store.opened, model, world: name };
    begins = true;
    another({ model, world: name, episode: 0 });
  } catch {
    toast("the upload failed", true);
  }
}

function unpackedJson(text) {
  try { return JSON.parse(text); } catch { return null; }
}

// Wiring

const hands = new Hands(canvases.imagined, { edit, redraw, pause: () => { store.playing = false; } });
const showSettings = panels.settings(reopen);
const link = new Link({
  hear: (message) => heard[message.type]?.(message),
  lost: (reason) => { $("#gone").hidden = false; if (reason) $("#gone").textContent = reason; },
});
window.studio = { store, hands, frameAt, branch }; // for debugging in the console

panels.toggles(toggled);
keys({
  play, undo, redo, select, seek, step: (by) => seek(store.frame + by), act: (what, amount) => hands.act(what, amount),
  letGo: () => { hands.drop(); store.selected = -1; redraw(); }, holds: () => !!hands.selected(), save: take,
  future: (by) => pickFuture(Math.max(0, Math.min((branch()?.futures[0]?.length ?? 1) - 1, store.future + by))),
  beside: () => { if (other()) { store.beside = store.beside === "before" ? "futures" : "before"; fetchMissing(); changed(); } },
});
$("#play").onclick = play;
$("#undo").onclick = undo;
$("#redo").onclick = redo;
for (const button of document.querySelectorAll("[data-do]")) button.onclick = () => hands.act(button.dataset.do);
for (const tab of document.querySelectorAll("[data-beside]")) tab.onclick = () => { store.beside = tab.dataset.beside; fetchMissing(); changed(); };
$("#model").onchange = () => {
  const model = $("#model").value;
  const { world, given, steps } = store.hello.models.find(({ name }) => name === model);
  const own = isUpload(store.opened.world); // keep an uploaded video
  another({ model, world: own ? store.opened.world : world, episode: 0, settings: { ...store.opened.settings, given, steps } });
};
$("#world").onchange = () => another({ world: $("#world").value, episode: 0 });
const episode = (value) => another({ episode: Math.max(0, Math.min(store.hello.episodes - 1, value || 0)) });
$("#episode").onchange = () => episode(Number($("#episode").value));
$("#episode-back").onclick = () => episode(store.opened.episode - 1);
$("#episode-on").onclick = () => episode(store.opened.episode + 1);
for (const button of document.querySelectorAll("[data-file]")) button.onclick = () => take(button.dataset.file);
$("#take-link").onclick = async () => {
  $("#take").open = false;
  const text = `${location.origin}${location.pathname}${location.search}#view=${packed(view())}`;
  history.replaceState(null, "", text);
  try { await navigator.clipboard.writeText(text); toast("link copied"); } catch { toast("copy the link from the address bar"); }
};
$("#take-json").onclick = () => { $("#take").open = false; save("gswm-view.json", JSON.stringify(view(), null, 1)); };
$("#open-video").onclick = () => $("#file").click();
$("#file").onchange = () => { receive($("#file").files[0]); $("#file").value = ""; };
document.addEventListener("click", (event) => { if (!event.target.closest("#take")) $("#take").open = false; });
for (const kind of ["dragenter", "dragover"]) document.addEventListener(kind, (event) => { event.preventDefault(); $("#drop").hidden = false; });
document.addEventListener("dragleave", (event) => { if (!event.relatedTarget) $("#drop").hidden = true; });
document.addEventListener("drop", (event) => { event.preventDefault(); $("#drop").hidden = true; receive(event.dataTransfer.files[0]); });

const bar = $("#timeline");
const scrub = (event) => {
  const box = bar.getBoundingClientRect();
  seek(Math.floor(((event.clientX - box.left) / box.width) * length()));
};
bar.addEventListener("pointerdown", (event) => { bar.setPointerCapture(event.pointerId); scrub(event); });
bar.addEventListener("pointermove", (event) => { if (event.buttons) scrub(event); });

const THEMES = ["", "light", "dark"];
const setTheme = (theme) => { document.documentElement.dataset.theme = theme; redraw(); };
try { setTheme(localStorage.getItem("gswm-theme") ?? ""); } catch { /* no storage in this frame */ }
$("#theme").onclick = () => {
  const next = THEMES[(THEMES.indexOf(document.documentElement.dataset.theme ?? "") + 1) % 3];
  setTheme(next);
  try { localStorage.setItem("gswm-theme", next); } catch { /* the same */ }
  toast(next ? `${next} theme` : "system theme");
};
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", redraw);
new ResizeObserver(redraw).observe($("main"));

let last = 0;
function tick(now) {
  requestAnimationFrame(tick);
  $("#play").textContent = store.playing ? "❚❚" : "▶";
  if (!store.playing || now - last < 1000 / FPS) return;
  last = now;
  if (store.frame >= length() - 1) store.playing = false;
  else if (frameAt(branch(), store.future, store.frame + 1)) store.frame += 1;
  redraw();
}
requestAnimationFrame(tick);
