import assert from 'node:assert/strict';
import { test } from 'node:test';
import { readImageHeader } from '../../../worker/tools/image-header.ts';
import { png } from './images.ts';
import { workspace } from './support.ts';

const base64 = (text: string) => Buffer.from(text, 'base64');
const GIF = base64('R0lGODlhAwACAIAAAAAAAP///yH5BAEAAAAALAAAAAADAAIAAAICRF4AOw==');
const WEBP_LOSSY = base64('UklGRiIAAABXRUJQVlA4IBYAAAAwAQCdASoBAAEADsD+JaQAA3AAAAAA');
const WEBP_LOSSLESS = base64('UklGRhoAAABXRUJQVlA4TA0AAAAvAAAAEAcQERGIiP4HAA==');
const JPEG_HEADER = Buffer.from(
  'ffd8ffe000104a46494600010100000100010000ffc0001108000200030301220002110103',
  'hex',
);

test('the kind and size of PNG, JPEG, GIF and WebP are read from the header', () => {
  assert.deepEqual(readImageHeader(png(640, 480)), { mediaType: 'image/png', width: 640, height: 480 });
  assert.deepEqual(readImageHeader(GIF), { mediaType: 'image/gif', width: 3, height: 2 });
  assert.deepEqual(readImageHeader(JPEG_HEADER), { mediaType: 'image/jpeg', width: 3, height: 2 });
  assert.deepEqual(readImageHeader(WEBP_LOSSY), { mediaType: 'image/webp', width: 1, height: 1 });
  assert.deepEqual(readImageHeader(WEBP_LOSSLESS), { mediaType: 'image/webp', width: 1, height: 1 });
});

test('a header that is cut anywhere is no image, and never a crash', () => {
  for (const [bytes, needed] of [
    [png(9, 9), 24],
    [GIF, 10],
    [JPEG_HEADER, JPEG_HEADER.length - 8],
    [WEBP_LOSSY, 30],
  ] as const) {
    for (let length = 0; length < needed; length++)
      assert.equal(readImageHeader(bytes.subarray(0, length)), null);
  }
});

test('an image is handed over whole, with its kind from the bytes and not from the name', async (t) => {
  const { call, write } = workspace(t);
  const bytes = png(4, 3);
  write('picture.jpg', bytes);
  const outcome = await call('read_image', { path: 'picture.jpg' });
  assert.equal(outcome.content, `picture.jpg: image/png, 4×3 pixels, ${bytes.length} bytes`);
  assert.deepEqual(outcome.image, { mediaType: 'image/png', data: bytes.toString('base64') });
});

test('C077 a decompression bomb is refused from the header', async (t) => {
  const { call, write } = workspace(t);
  write('bomb.png', png(30_000, 30_000));
  const rssBefore = process.memoryUsage.rss();
  const outcome = await call('read_image', { path: 'bomb.png' });
  assert.equal(outcome.isError, true);
  assert.match(outcome.content, /too large: 30000×30000 pixels/);
  assert.equal(outcome.image, undefined);
  assert.ok(process.memoryUsage.rss() - rssBefore < 50e6);
});

test('C077 the other kinds of image are judged by their header too, up to the largest size that it can say', async (t) => {
  const { call, write } = workspace(t);
  const gif = Buffer.from(GIF);
  gif.writeUInt16LE(65_535, 6);
  const jpeg = Buffer.from(JPEG_HEADER);
  jpeg.writeUInt16BE(65_535, 25);
  const webp = Buffer.from(WEBP_LOSSY);
  webp.writeUInt16LE(0x3fff, 26);
  const huge = png(1, 1);
  huge.writeUInt32BE(0xffff_ffff, 16);
  for (const bytes of [gif, jpeg, webp, huge]) {
    write('bomb', bytes);
    assert.match((await call('read_image', { path: 'bomb' })).content, /too large: \d+×\d+ pixels/);
  }
});

test('text, an empty image and a file over 5 MiB are errors', async (t) => {
  const { call, write } = workspace(t);
  write('text.png', 'not a picture');
  write('empty.gif', Buffer.from('GIF89a\0\0\0\0\0\0', 'latin1'));
  write('large.png', Buffer.concat([png(4, 4), Buffer.alloc(5 * 1024 * 1024)]));
  assert.match((await call('read_image', { path: 'text.png' })).content, /is not a PNG, JPEG, GIF or WebP/);
  assert.match((await call('read_image', { path: 'empty.gif' })).content, /has no pixels/);
  assert.match((await call('read_image', { path: 'large.png' })).content, /more than 5 MiB/);
});
