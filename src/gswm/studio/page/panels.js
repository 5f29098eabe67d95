// The sidebar, the toggles and the small multiples.

import { tile } from "./draw.js";
import { branch, color, frameAt, length, nameOf, store } from "./store.js";

export const $ = (selector) => document.querySelector(selector);

function element(tag, attributes = {}, ...children) {
  const made = Object.assign(document.createElement(tag), attributes);
  made.append(...children);
  return made;
}

const TOGGLES = [
  ["boxes", "b", "boxes"], ["ids", "i", "ids"], ["trails", "t", "trails"], ["masks", "m", "masks"],
  ["depth", "o", "depth order"], ["background", "g", "background alone"], ["regions", "p", "proposal regions"],
  ["presence", "e", "presence"],
];
export const TOGGLE_KEYS = Object.fromEntries(TOGGLES.map(([name, key]) => [key, name]));

export function toggles(changed) {
  const bar = $(".toggles");
  bar.replaceChildren(...TOGGLES.map(([name, key, words]) => {
    const at = words.indexOf(key);
    const button = element("button", { id: `toggle-${name}`, title: `${words} (${key.toUpperCase()})` });
    button.append(words.slice(0, at), element("u", { textContent: key }), words.slice(at + 1));
    button.setAttribute("aria-pressed", store.toggles[name]);
    button.onclick = () => {
      store.toggles[name] = !store.toggles[name];
      button.setAttribute("aria-pressed", store.toggles[name]);
      changed(name);
    };
    return button;
  }));
}

export function objects(select) {
  const found = (frameAt(store.preview ?? branch(), store.future, store.frame)?.objects ?? []).filter((o) => o.there);
  const order = [...found].sort((a, b) => b.depth - a.depth);
  found.sort((a, b) => a.id - b.id);
  const list = $("#objects");
  const key = found.map((o) => o.id).join();
  if (list.dataset.key !== key) {
    list.dataset.key = key;
    list.replaceChildren(...found.map((object) => {
      const item = element("li", { tabIndex: -1 },
        element("span", { className: "chip", textContent: object.id }), element("span", { className: "at" }),
        element("span", { className: "bar", title: "presence" }, element("i")), element("span", { className: "deep", title: "depth order: 1 is in front" }));
      item.dataset.id = object.id;
      item.style.setProperty("--mine", color(object.id));
      item.onclick = () => select(object.id);
      return item;
    }));
  }
  found.forEach((object, i) => {
    const item = list.children[i];
    item.classList.toggle("on", object.id === store.selected);
    item.querySelector(".at").textContent = `${((object.x + 1) / 2).toFixed(2)}, ${((object.y + 1) / 2).toFixed(2)}`;
    item.querySelector(".bar").style.setProperty("--share", `${Math.round(100 * object.presence)}%`);
    item.querySelector(".deep").textContent = `↑${order.indexOf(object) + 1}`;
  });
  $("#objects-note").textContent = found.length ? "drag one, or flick it" : "";
}

export function history({ go, compare }) {
  const list = $("#history");
  const items = [];
  const add = (each, depth) => {
    const words = element("span", { className: "does" }, nameOf(each), " ");
    if (each.edit) words.append(element("i", { textContent: `at ${each.edit.frame}` }));
    const button = element("button", { textContent: "compare", title: "Show beside the current branch" });
    button.onclick = (event) => { event.stopPropagation(); compare(each.number); };
    const item = element("li", {}, element("span", { className: "dot" }), words, button);
    item.dataset.branch = each.number;
    item.style.setProperty("--depth", Math.min(depth, 6));
    item.classList.toggle("on", each.number === store.current);
    item.classList.toggle("beside", store.beside === "before" && each.number === store.compare);
    item.onclick = () => go(each.number);
    items.push(item);
    for (const child of store.branches) if (child.edit?.branch === each.number) add(child, depth + 1);
  };
  if (branch(0)) add(branch(0), 0);
  list.replaceChildren(...items);
  scrollTo(list, list.querySelector(".on"));
  $("#undo").disabled = !branch()?.edit;
  $("#redo").disabled = !store.redo.length;
}

// Scroll an item into view within its list; `scrollIntoView` would also scroll the page.
function scrollTo(list, item) {
  if (!item) return;
  const [around, inside] = [list.getBoundingClientRect(), item.getBoundingClientRect()];
  list.scrollTop += Math.min(0, inside.top - around.top) + Math.max(0, inside.bottom - around.bottom);
}

export function tiles(pick, hover) {
  const count = branch().futures[0]?.length ?? 0;
  const box = $("#tiles");
  if (box.children.length !== count) {
    box.style.setProperty("--columns", count > 16 ? 16 : 8);
    box.replaceChildren(...Array.from({ length: count }, (_, i) => {
      const canvas = element("canvas", { title: `future ${i}` });
      canvas.dataset.future = i;
      canvas.onclick = () => pick(i);
      canvas.onpointerenter = () => hover(i);
      canvas.onpointerleave = () => hover(-1);
      return canvas;
    }));
  }
  [...box.children].forEach((canvas, i) => {
    canvas.classList.toggle("on", i === store.future);
    tile(canvas, branch(), i, store.frame);
  });
  const { sample, seed } = store.opened.settings;
  $("#futures-note").textContent = sample ? `${count} samples, seed ${seed}` : "the mean is one future";
}

const POWERS = [1, 2, 4, 8, 16, 32, 64];

export function settings(reopen) {
  const show = () => {
    const { given, steps, futures, sample, seed } = store.opened.settings;
    const at = POWERS.findIndex((power) => power >= futures);
    for (const [id, value, words] of [["given", given, given], ["steps", steps, steps], ["futures", at, futures]]) {
      const input = $(`#${id}`);
      if (document.activeElement !== input) input.value = value;
      input.nextElementSibling.textContent = words;
    }
    for (const button of $("#sample").children) button.classList.toggle("on", button.dataset.sample === String(sample));
    $("#futures").disabled = $("#dice").disabled = !sample;
    $("#seed").textContent = seed;
    $("#given").max = Math.min(60, store.truth.pixels.shape[0]);
  };
  const value = { given: Number, steps: Number, futures: (v) => POWERS[v] };
  for (const id of ["given", "steps", "futures"]) {
    const input = $(`#${id}`);
    input.oninput = () => { input.nextElementSibling.textContent = value[id](input.value); };
    input.onchange = () => reopen({ [id]: value[id](input.value) });
  }
  for (const button of $("#sample").children) button.onclick = () => reopen({ sample: button.dataset.sample === "true" });
  $("#dice").onclick = () => reopen({ seed: (store.opened.settings.seed + 1) % 1000 });
  return show;
}

export function clock() {
  const which = store.preview ?? branch();
  const imagined = store.frame > which.frame;
  $("#clock").innerHTML = `<b>${store.frame}</b> / ${length() - 1}`;
  const bar = $("#timeline");
  bar.setAttribute("aria-valuenow", store.frame);
  bar.setAttribute("aria-valuemax", length() - 1);
  if (imagined) return `imagined, ${store.frame - which.frame} on`;
  if (frameAt(which, store.future, store.frame)?.objects === null) return "finding objects…";
  return store.frame >= which.first && which.edit ? "edited" : "given";
}

// With `ofView`, the line is about the open view, and disappears with it.
let hides = 0;
export function toast(line, wrong = false, ofView = false) {
  const box = $("#toast");
  box.textContent = line;
  box.classList.toggle("of-view", ofView);
  box.classList.toggle("wrong", wrong);
  box.hidden = false;
  clearTimeout(hides);
  hides = setTimeout(() => { box.hidden = true; }, wrong ? 7000 : 3000);
}

export function endView() {
  $("#toast.of-view")?.setAttribute("hidden", "");
}
