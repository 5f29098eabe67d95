// The WebSocket: JSON out, heads and arrays in; comes back by itself when the server does.

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

export function address(path, more = {}) {
  const token = new URLSearchParams(location.search).get("token");
  const query = new URLSearchParams({ ...(token ? { token } : {}), ...more }).toString();
  return path + (query ? `?${query}` : "");
}

export class Link {
  constructor({ hear, lost }) {
    this.hear = hear;
    this.lost = lost;
    this.connect();
  }

  connect() {
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
