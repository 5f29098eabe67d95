// The state of the page: frames and objects, independent of the model.

export const FPS = 12;
const KEPT = 400e6; // bytes of futures to keep; older ones are requested again

const IDS = [
  [255, 140, 30], [60, 205, 125], [255, 110, 190], [80, 170, 255], [235, 205, 60],
  [175, 125, 255], [0, 200, 195], [240, 85, 75], [160, 205, 60], [205, 155, 120],
];
export const rgb = (id) => IDS[(((id - 1) % IDS.length) + IDS.length) % IDS.length];
export const color = (id, alpha = 1) => `rgb(${rgb(id).join(" ")} / ${alpha})`;

export const store = {
  hello: null, // models, worlds
  opened: null, // model, world, episode, settings, size
  wanted: null, // the view that is being restored, until all of its branches have arrived
  truth: null, // {pixels, frames} of the video
  seen: [], // the model's inferred objects and reconstruction of each frame
  branches: [],
  preview: null, // the branch of an edit in progress
  current: 0,
  compare: -1,
  beside: "futures",
  future: 0,
  hover: -1,
  frame: 0,
  playing: false,
  selected: -1,
  redo: [],
  imagining: true,
  toggles: {
    boxes: true, ids: true, trails: true, masks: false, depth: false,
    background: false, regions: false, presence: false,
  },
};

export const length = () => (store.opened ? store.opened.settings.given + store.opened.settings.steps : 0);
export const branch = (number = store.current) => store.branches[number];

// One frame of a message's arrays.
function frames(message, count, future, time) {
  const pick = (array, index) => {
    const stride = array.values.length / count;
    return array.values.subarray(index * stride, (index + 1) * stride);
  };
  const index = future * time.total + time.at;
  return {
    objects: objectsOf(pick(message.objects, index)),
    pixels: pick(message.pixels, index),
    background: message.background ? backgroundOf(message.background, time) : null,
  };
}

function backgroundOf(array, time) {
  const stride = array.values.length / time.total;
  return array.values.subarray(time.at * stride, (time.at + 1) * stride);
}

// The parts of an array of a message along its first axis.
export function rowsOf({ values, shape }) {
  const stride = values.length / shape[0];
  return Array.from({ length: shape[0] }, (_, i) => values.subarray(i * stride, (i + 1) * stride));
}

// Convert rows of eleven numbers to objects, including absent ones, whose presence can be shown.
export function objectsOf(values) {
  const found = [];
  for (let i = 0; i < values.length; i += 11) {
    const [x, y, h, w, depth, presence, id, px, py, ph, pw] = values.subarray(i, i + 11);
    found.push({ x, y, h, w, depth, presence, id, px, py, ph, pw, there: presence > 0.5 && id >= 0 });
  }
  return found;
}

// A message with arrays (time, ...) as a list of frames.
export function asFrames(message) {
  const total = message.pixels.shape[0];
  return Array.from({ length: total }, (_, at) => frames(message, total, 0, { at, total }));
}

// A message with arrays (future, time, ...) as a list over time of lists of one frame per future.
export function asFutures(message) {
  const [count, total] = message.pixels.shape;
  return Array.from({ length: total }, (_, at) =>
    Array.from({ length: count }, (_, future) =>
      frames(message, count * total, future, { at, total })));
}

// Frame `t` of a branch, or null if it has not arrived yet.
export function frameAt(which, future, t) {
  let found = which;
  while (found) {
    if (t > found.frame) {
      const futures = found.futures[t - found.frame - 1];
      return futures ? futures[Math.min(future, futures.length - 1)] : null;
    }
    if (t >= found.first) return found.own[t - found.first];
    future = found.edit.future;
    found = branch(found.edit.branch);
  }
  return null;
}

export const isImagined = (which, t) => t > which.frame;

// The number of consecutive frames of a branch that have arrived.
export const known = (which) => which.frame + 1 + which.futures.length;

export function newBranch(message) {
  return {
    number: message.branch, first: message.first, frame: message.frame, edit: message.edit,
    own: asFrames(message), futures: [], masks: {}, done: false, used: performance.now(),
  };
}

// The branch of a video whose objects are yet to be inferred: its frames have `objects: null`.
export function unseenBranch(frames) {
  const own = frames.map(({ pixels }) => ({ pixels, objects: null, background: null }));
  return { number: 0, first: 0, frame: own.length - 1, edit: null, own, futures: [], masks: {}, done: false, unseen: true, used: performance.now() };
}

// Drop the futures that were shown least recently.
export function tidy() {
  const held = (each) => each.futures.length * (each.futures[0]?.length ?? 0) * store.opened.size ** 2 * 3;
  let total = store.branches.reduce((sum, each) => sum + held(each), 0);
  for (const each of [...store.branches].sort((a, b) => a.used - b.used)) {
    if (total < KEPT) return;
    if (each.number === store.current || each.number === store.compare) continue;
    total -= held(each);
    each.futures = [];
    each.done = false;
  }
}

const NAMES = {
  move: (c) => `move ${c.id}`, throw: (c) => `throw ${c.id}`, resize: (c) => `resize ${c.id}`,
  depth: (c) => `depth of ${c.id}`, remove: (c) => `delete ${c.id}`,
  duplicate: (c) => `duplicate ${c.id}`, look: (c) => `${c.id} looks like ${c.other}`,
};
export const nameOf = (which) => (which.edit ? NAMES[which.edit.change.kind](which.edit.change) : "as inferred");

// Everything needed to restore this view, or the one that is being restored.
export function view() {
  const { opened, wanted, branches, current, compare, beside, future, frame, toggles } = store;
  if (wanted) return { version: 1, ...wanted, frame: wanted.frame ?? frame, toggles };
  const edits = branches.slice(1).map(({ edit }) => ({
    branch: edit.branch, future: edit.future, frame: edit.frame, change: edit.change,
  }));
  const { model, world, episode, settings } = opened;
  return { version: 1, model, world, episode, settings, edits, current, compare, beside, future, frame, toggles };
}

// Parse a saved view; null if a value has the wrong type. The server checks settings and edits.
export function asView(saved) {
  const plain = (value) => value !== null && typeof value === "object" && !Array.isArray(value);
  if (!plain(saved)) return null;
  const { model, world, episode = 0, settings, edits = [], current = 0, compare = -1, future = 0, frame, toggles = {}, beside = "futures" } = saved;
  const whole = (value, least = 0) => Number.isInteger(value) && value >= least;
  const numbers = [episode, current, future, frame ?? 0].every((value) => whole(value)) && whole(compare, -1);
  const names = [model, world, beside].every((value) => typeof value === "string");
  if (!numbers || !names || !plain(settings ?? {}) || !Array.isArray(edits) || !plain(toggles)) return null;
  const known = Object.keys(store.toggles).filter((name) => typeof toggles[name] === "boolean");
  return { model, world, episode, settings, edits, current, compare, future, frame, beside, toggles: Object.fromEntries(known.map((name) => [name, toggles[name]])) };
}

export const packed = (value) =>
  btoa(unescape(encodeURIComponent(JSON.stringify(value)))).replace(/\+/g, "-").replace(/\//g, "_").replace(/=+$/, "");
export function unpacked(text) {
  try {
    return JSON.parse(decodeURIComponent(escape(atob(text.replace(/-/g, "+").replace(/_/g, "/")))));
  } catch {
    return null;
  }
}
