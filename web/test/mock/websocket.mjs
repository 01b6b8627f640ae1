// Enough of a WebSocket server (RFC 6455) for the speed test's mock: whole frames, no extensions.
import { createHash } from 'node:crypto';

const GUID = '258EAFA5-E914-47DA-95CA-C5AB0DC85B11';

/** Answers an upgrade; `onmessage(data)` gets text as string, binary as Buffer. */
export function accept(request, socket, onmessage) {
  const key = createHash('sha1').update(request.headers['sec-websocket-key'] + GUID).digest('base64');
  const protocol = request.headers['sec-websocket-protocol'];
  socket.write(`HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Accept: ${key}\r\n${protocol ? `Sec-WebSocket-Protocol: ${protocol}\r\n` : ''}\r\n`);
  socket.setNoDelay(true);
  let rest = Buffer.alloc(0);
  socket.on('error', () => {});
  socket.on('data', (chunk) => {
    rest = rest.length === 0 ? chunk : Buffer.concat([rest, chunk]);
    for (;;) {
      if (rest.length < 2) return;
      let length = rest[1] & 127;
      let at = 2;
      if (length === 126) {
        if (rest.length < 4) return;
        length = rest.readUInt16BE(2);
        at = 4;
      } else if (length === 127) {
        if (rest.length < 10) return;
        length = Number(rest.readBigUInt64BE(2));
        at = 10;
      }
      if (rest.length < at + 4 + length) return;
      const opcode = rest[0] & 15;
      if (opcode === 1) {
        const mask = rest.subarray(at, at + 4);
        const text = Buffer.from(rest.subarray(at + 4, at + 4 + length));
        for (let index = 0; index < text.length; index += 1) text[index] ^= mask[index & 3];
        onmessage(text.toString());
      } else if (opcode === 2) onmessage(rest.subarray(at + 4, at + 4 + length));
      else if (opcode === 8) socket.end();
      rest = rest.subarray(at + 4 + length);
    }
  });
  const frame = (opcode, data) => {
    const head = data.length < 126 ? Buffer.from([128 | opcode, data.length]) : data.length < 65_536 ? Buffer.from([128 | opcode, 126, data.length >> 8, data.length & 255]) : Buffer.alloc(10);
    if (data.length >= 65_536) {
      head[0] = 128 | opcode;
      head[1] = 127;
      head.writeBigUInt64BE(BigInt(data.length), 2);
    }
    return Buffer.concat([head, data]);
  };
  return {
    text: (message) => socket.write(frame(1, Buffer.from(JSON.stringify(message)))),
    /** Whether the socket takes more at once. */
    binary: (data) => socket.write(frame(2, data)),
    socket,
  };
}

/** The speed test's server side, in short; `rate` bounds what it sends, bytes/s. */
export class SpeedMock {
  phaseSeconds = 1.2;
  busy = false;
  results = new Map();
  rate = 20e6;
  /** What the server says of a result. */
  judged = { verdict: 'download 160 Mbit/s: enough for 4K video.', grade: 'good', uses: [{ name: 'Calls', grade: 'good', reason: 'round trip under load 30.0 ms' }, { name: '4K video', grade: 'usable', reason: 'download 30.0 Mbit/s' }] };
  #sessions = new Map();

  upgrade(request, socket) {
    const url = new URL(request.url, 'http://mock');
    const session = url.searchParams.get('session');
    if (session === null) this.#control(request, socket);
    else this.#join(request, socket, this.#sessions.get(session));
  }

  #control(request, socket) {
    const session = `s${this.#sessions.size + 1}`;
    const one = { data: [], bytes: 0, phase: undefined, began: 0, timer: undefined, ticker: undefined };
    this.#sessions.set(session, one);
    const peer = accept(request, socket, (text) => {
      if (typeof text !== 'string') return;
      const message = JSON.parse(text);
      const seconds = () => (performance.now() - one.began) / 1000;
      const stop = () => {
        if (one.phase === undefined) return;
        clearInterval(one.ticker);
        clearTimeout(one.timer);
        peer.text({ type: 'stopped', phase: one.phase, bytes: one.bytes, seconds: seconds() });
        one.phase = undefined;
      };
      if (message.type === 'ping') setTimeout(() => peer.text({ type: 'pong', id: message.id }), one.phase === undefined ? 5 : 30);
      else if (message.type === 'start') {
        Object.assign(one, { phase: message.phase, bytes: 0, began: performance.now() });
        peer.text({ type: 'started', phase: message.phase });
        const chunk = Buffer.alloc(65_536, 7);
        one.ticker = setInterval(() => {
          if (one.phase === 'upload') return peer.text({ type: 'received', bytes: one.bytes, seconds: seconds() });
          while (one.bytes < this.rate * seconds() && one.data.length > 0) {
            for (const other of one.data) other.binary(chunk);
            one.bytes += chunk.length * one.data.length;
          }
        }, message.phase === 'upload' ? 100 : 10);
        one.timer = setTimeout(stop, this.phaseSeconds * 1000);
      } else if (message.type === 'stop') stop();
      else if (message.type === 'result') {
        const { type: _, download_marks: marks = [], ...result } = message;
        const levels = marks.slice(1).map((mark, index) => ({ from: marks[index].seconds, to: mark.seconds, rate: (8 * (mark.bytes - marks[index].bytes)) / (mark.seconds - marks[index].seconds) }));
        this.results.set('r1', { id: 'r1', at: new Date().toISOString(), version: '0.1.0', ...result, curves: { download: levels, upload: [{ from: 0, to: 1, rate: 8e6 }] }, ...this.judged });
        peer.text({ type: 'kept', id: 'r1', url: '/speed.html?result=r1' });
      }
    });
    socket.on('close', () => {
      clearInterval(one.ticker);
      clearTimeout(one.timer);
    });
    if (this.busy) {
      peer.text({ type: 'busy', retry_after_seconds: 30, text: 'Four tests run from your address already.' });
      return;
    }
    peer.text({ type: 'hello', version: '0.1.0', session, streams: 2, phase_seconds: this.phaseSeconds, idle_seconds: 0.4, ping_seconds: 0.05, limits: { bytes: 1e9, session_seconds: 60 } });
  }

  #join(request, socket, one) {
    if (one === undefined) return socket.end('HTTP/1.1 403 Forbidden\r\n\r\n');
    one.data.push(accept(request, socket, (data) => {
      if (one.phase === 'upload' && typeof data !== 'string') one.bytes += data.length;
    }));
  }
}
