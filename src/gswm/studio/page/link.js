// The WebSocket: sends JSON, receives headers and arrays, and reconnects automatically.

const TYPES = { f4: Float32Array, u1: Uint8Array };

export function decode(buffer) {
  const length = new DataView(buffer).getUint32(0, true);
  const head = JSON.parse(new TextDecoder().decode(new Uint8Array(buffer, 4, length)));
  let at = 4 + length;
  for (const { name, type, shape } of head.parts) {
    const count = shape.reduce((a, b) => a * b, 1);
    const values = new TYPES[type](buffer, at, count);
    head[name] = { values, shape };
    at += values.byteLength;
  }
  return head;
}

// The token is in the address. A page that outlives its server gets the new token from a newer page
// through the local storage of this origin.
const KEY = "gswm-token";
const tokenOf = () => new URLSearchParams(location.search).get("token") ?? "";
try { localStorage.setItem(KEY, tokenOf()); } catch { /* no storage in this frame */ }

function adopt() {
  let found = null;
  try { found = localStorage.getItem(KEY); } catch { /* the same */ }
  if (!found || found === tokenOf()) return;
  const next = new URL(location);
  next.searchParams.set("token", found);
  history.replaceState(null, "", next);
}

export function address(path, more = {}) {
  return `${path}?${new URLSearchParams({ token: tokenOf(), ...more })}`;
}

export class Link {
  constructor({ hear, lost }) {
    this.hear = hear;
    this.lost = lost;
    this.connect();
  }

  connect() {
    adopt();
    const scheme = location.protocol === "https:" ? "wss:" : "ws:";
    this.socket = new WebSocket(`${scheme}//${location.host}${address("/session")}`);
    this.socket.binaryType = "arraybuffer";
    this.socket.onmessage = (event) => this.hear(decode(event.data));
    this.socket.onclose = (event) => {
      this.lost(event.reason);
      setTimeout(() => this.connect(), 1000);
    };
  }

  say(message) {
    if (this.socket.readyState === WebSocket.OPEN) this.socket.send(JSON.stringify(message));
  }
}
