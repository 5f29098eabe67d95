// Keyboard shortcuts.

import { $, TOGGLE_KEYS } from "./panels.js";

const HELP = [
  ["space", "play or pause"], ["← →", "previous, next frame"], ["Home End", "first, last frame"], [", .", "previous, next future"],
  ["0 … 9", "select an object"], ["Esc", "deselect"], ["Alt + arrows", "move it"], ["Shift + arrows", "throw it"],
  ["T then drag", "throw it with an arrow"], ["Shift + drag", "the same"], ["drag", "move it; release in motion to throw"], ["+ −", "larger, smaller"],
  ["] [", "bring forward, send back"], ["D", "duplicate it"], ["K then click", "copy another's appearance"], ["Del", "delete it"],
  ["Z", "undo"], ["Shift Z", "redo"], ["C", "compare: before, or all futures"], ["R", "other samples"],
  ["B I T M", "boxes, ids, trails, masks"], ["O G P E", "depth, background, regions, presence"], ["L", "light or dark"], ["S", "save an animation"],
];

const ARROWS = { ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, -1], ArrowDown: [0, 1] };

export function keys(does) {
  $("#keys-list").replaceChildren(...HELP.flatMap(([key, words]) => {
    const [keycap, text] = [document.createElement("kbd"), document.createElement("span")];
    [keycap.textContent, text.textContent] = [key, words];
    return [keycap, text];
  }));
  $("#help").onclick = () => $("#keys").showModal();

  document.addEventListener("keydown", (event) => {
    const { key, altKey, shiftKey } = event;
    const typed = event.target.closest("input, select, dialog[open]");
    if (typed && (typed.tagName !== "INPUT" || typed.type !== "range" || !["z", "Z"].includes(key))) return;
    if (event.metaKey || event.ctrlKey) {
      if (key.toLowerCase() !== "z") return;
    }
    const way = ARROWS[key];
    const small = key.toLowerCase();
    let act;
    if (way && altKey) act = () => does.act("nudge", way);
    else if (way && shiftKey) act = () => does.act("toss", way);
    else if (way && way[0]) act = () => does.step(way[0]);
    else if (way) act = () => does.future(way[1]);
    else if (key === " ") act = does.play;
    else if (key === "Home") act = () => does.seek(0);
    else if (key === "End") act = () => does.seek(Infinity);
    else if (key === "Delete" || key === "Backspace") act = () => does.act("remove");
    else if (key === "Escape") act = does.letGo;
    else if (/^[0-9]$/.test(key)) act = () => does.select(Number(key));
    else if (small === "z") act = shiftKey ? does.redo : does.undo;
    else if (small === "t" && does.holds()) act = () => does.act("throw");
    else if (small in TOGGLE_KEYS) act = () => $(`#toggle-${TOGGLE_KEYS[small]}`).click();
    else {
      act = {
        "]": () => does.act("forward"), "[": () => does.act("back"), d: () => does.act("duplicate"), k: () => does.act("look"),
        "+": () => does.act("larger"), "=": () => does.act("larger"), "-": () => does.act("smaller"), "?": () => $("#keys").showModal(),
        ",": () => does.future(-1), ".": () => does.future(1), c: does.beside, r: () => $("#dice").click(), l: () => $("#theme").click(),
        s: () => does.save("gif"),
      }[small];
    }
    if (!act) return;
    event.preventDefault();
    act();
  });
}
