// CRC-32 (IEEE 802.3, as in zlib) of bytes. Pure; Node 18 has no `zlib.crc32`.

const TABLE = new Uint32Array(256);
for (let byte = 0; byte < 256; byte += 1) {
  let value = byte;
  for (let bit = 0; bit < 8; bit += 1) value = value & 1 ? (value >>> 1) ^ 0xedb88320 : value >>> 1;
  TABLE[byte] = value;
}

/** The checksum as 8 lower-case hex digits. Several parts count as their concatenation. */
export function crc32Hex(...parts: Uint8Array[]): string {
  let value = 0xffffffff;
  for (const part of parts) {
    for (let index = 0; index < part.length; index += 1) {
      value = (value >>> 8) ^ (TABLE[(value ^ (part[index] as number)) & 0xff] as number);
    }
  }
  return ((value ^ 0xffffffff) >>> 0).toString(16).padStart(8, '0');
}
