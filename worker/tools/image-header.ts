// Reads an image's kind and size from its first bytes. Never decodes pixels, so a bomb costs nothing.

export interface ImageHeader {
  mediaType: 'image/png' | 'image/jpeg' | 'image/gif' | 'image/webp';
  width: number;
  height: number;
}

/** The header of a PNG, JPEG, GIF or WebP, or null when the bytes are none of them or end too early. Pure. */
export function readImageHeader(bytes: Buffer): ImageHeader | null {
  return readPng(bytes) ?? readJpeg(bytes) ?? readGif(bytes) ?? readWebp(bytes);
}

const startsWith = (bytes: Buffer, text: string, at = 0): boolean =>
  bytes.toString('latin1', at, at + text.length) === text;

/** PNG (RFC 2083): the signature, then the IHDR chunk. */
function readPng(bytes: Buffer): ImageHeader | null {
  if (bytes.length < 24 || !startsWith(bytes, '\x89PNG\r\n\x1a\n') || !startsWith(bytes, 'IHDR', 12))
    return null;
  return { mediaType: 'image/png', width: bytes.readUInt32BE(16), height: bytes.readUInt32BE(20) };
}

/** GIF89a: the logical screen descriptor. */
function readGif(bytes: Buffer): ImageHeader | null {
  if (bytes.length < 10 || !(startsWith(bytes, 'GIF87a') || startsWith(bytes, 'GIF89a'))) return null;
  return { mediaType: 'image/gif', width: bytes.readUInt16LE(6), height: bytes.readUInt16LE(8) };
}

/** JPEG (ITU T.81): segments up to the first start of frame. */
function readJpeg(bytes: Buffer): ImageHeader | null {
  if (bytes.length < 4 || bytes.readUInt16BE(0) !== 0xffd8) return null;
  let at = 2;
  while (at + 9 <= bytes.length) {
    if (bytes[at] !== 0xff) return null;
    const marker = bytes[at + 1] as number;
    if (marker === 0xff) {
      at++; // Fill byte.
      continue;
    }
    const isFrame = marker >= 0xc0 && marker <= 0xcf && ![0xc4, 0xc8, 0xcc].includes(marker);
    if (isFrame) {
      return {
        mediaType: 'image/jpeg',
        height: bytes.readUInt16BE(at + 5),
        width: bytes.readUInt16BE(at + 7),
      };
    }
    const standsAlone = marker === 0x01 || (marker >= 0xd0 && marker <= 0xd7);
    at += standsAlone ? 2 : 2 + bytes.readUInt16BE(at + 2);
  }
  return null;
}

/** WebP (RFC 9649): lossy, lossless or extended. */
function readWebp(bytes: Buffer): ImageHeader | null {
  if (bytes.length < 30 || !startsWith(bytes, 'RIFF') || !startsWith(bytes, 'WEBP', 8)) return null;
  const mediaType = 'image/webp';
  if (startsWith(bytes, 'VP8 ', 12)) {
    return { mediaType, width: bytes.readUInt16LE(26) & 0x3fff, height: bytes.readUInt16LE(28) & 0x3fff };
  }
  if (startsWith(bytes, 'VP8L', 12)) {
    const bits = bytes.readUInt32LE(21);
    return { mediaType, width: (bits & 0x3fff) + 1, height: ((bits >>> 14) & 0x3fff) + 1 };
  }
  if (startsWith(bytes, 'VP8X', 12)) {
    return { mediaType, width: bytes.readUIntLE(24, 3) + 1, height: bytes.readUIntLE(27, 3) + 1 };
  }
  return null;
}
