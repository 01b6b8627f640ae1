// Makes a screenshot small: at most 224 colours, which a page of text and lines hardly needs more of.
import { deflateSync, inflateSync, crc32 as native } from 'node:zlib';

const table = Array.from({ length: 256 }, (_, index) => {
  let value = index;
  for (let bit = 0; bit < 8; bit += 1) value = value & 1 ? 0xedb88320 ^ (value >>> 1) : value >>> 1;
  return value >>> 0;
});
const crc32 = native ?? ((data) => (data.reduce((sum, byte) => table[(sum ^ byte) & 255] ^ (sum >>> 8), 0xffffffff) ^ 0xffffffff) >>> 0);

function chunk(name, data) {
  const body = Buffer.concat([Buffer.from(name), data]);
  const made = Buffer.alloc(body.length + 8);
  made.writeUInt32BE(data.length, 0);
  body.copy(made, 4);
  made.writeUInt32BE(crc32(body) >>> 0, made.length - 4);
  return made;
}

/** An 8-bit RGB or RGBA PNG without interlacing, as Chromium writes them, with a palette. */
export function smaller(png, most = 224) {
  const width = png.readUInt32BE(16);
  const height = png.readUInt32BE(20);
  const step = png[25] === 6 ? 4 : 3;
  const parts = [];
  for (let at = 8; at < png.length; at += png.readUInt32BE(at) + 12) if (png.toString('latin1', at + 4, at + 8) === 'IDAT') parts.push(png.subarray(at + 8, at + 8 + png.readUInt32BE(at)));
  const raw = inflateSync(Buffer.concat(parts));
  const line = width * step;
  const pixels = Buffer.alloc(line * height);
  for (let y = 0; y < height; y += 1) {
    const filter = raw[y * (line + 1)];
    for (let x = 0; x < line; x += 1) {
      const left = x >= step ? pixels[y * line + x - step] : 0;
      const up = y > 0 ? pixels[(y - 1) * line + x] : 0;
      const corner = x >= step && y > 0 ? pixels[(y - 1) * line + x - step] : 0;
      const guess = left + up - corner;
      const [a, b, c] = [Math.abs(guess - left), Math.abs(guess - up), Math.abs(guess - corner)];
      const add = [0, left, up, (left + up) >> 1, a <= b && a <= c ? left : b <= c ? up : corner][filter];
      pixels[y * line + x] = raw[y * (line + 1) + 1 + x] + add;
    }
  }
  const counts = new Map();
  for (let at = 0; at < pixels.length; at += step) {
    const colour = (pixels[at] << 16) | (pixels[at + 1] << 8) | pixels[at + 2];
    counts.set(colour, (counts.get(colour) ?? 0) + 1);
  }
  const palette = [...counts].sort((a, b) => b[1] - a[1]).slice(0, most).map(([colour]) => colour);
  const apart = (a, b) => ((a >> 16) - (b >> 16)) ** 2 + (((a >> 8) & 255) - ((b >> 8) & 255)) ** 2 + ((a & 255) - (b & 255)) ** 2;
  const nearest = new Map([...counts.keys()].map((colour) => [colour, palette.reduce((best, one, index) => (apart(one, colour) < apart(palette[best], colour) ? index : best), 0)]));
  const packed = Buffer.alloc((width + 1) * height);
  for (let y = 0; y < height; y += 1) for (let x = 0; x < width; x += 1) {
    const at = y * line + x * step;
    packed[y * (width + 1) + 1 + x] = nearest.get((pixels[at] << 16) | (pixels[at + 1] << 8) | pixels[at + 2]);
  }
  const head = Buffer.from(png.subarray(16, 29));
  head[9] = 3;
  const colours = Buffer.from(palette.flatMap((colour) => [colour >> 16, (colour >> 8) & 255, colour & 255]));
  return Buffer.concat([png.subarray(0, 8), chunk('IHDR', head), chunk('PLTE', colours), chunk('IDAT', deflateSync(packed, { level: 9 })), chunk('IEND', Buffer.alloc(0))]);
}
