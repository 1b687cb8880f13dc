// The read_image tool: hands an image file to the model, judged by its header alone.
import { defineTool, ToolError } from './define-tool.ts';
import { readImageHeader } from './image-header.ts';
import { boundsOf, openInside } from './path-inside.ts';

const MAX_IMAGE_BYTES = 5 * 1024 * 1024;
/** Per side; what the large providers accept. */
const MAX_SIDE_PIXELS = 8000;

interface Arguments {
  path: string;
}

export const readImageTool = defineTool<Arguments>({
  name: 'read_image',
  description:
    `Shows you a PNG, JPEG, GIF or WebP file of at most 5 MiB and ${MAX_SIDE_PIXELS} pixels per side. ` +
    'Only inside the working directory and /tmp.',
  parameters: {
    type: 'object',
    properties: {
      path: {
        type: 'string',
        minLength: 1,
        description: 'Path, relative to the working directory or absolute.',
      },
    },
    required: ['path'],
    additionalProperties: false,
  },
  effect: 'pure',
  async run({ path }, { cwd }) {
    const bytes = await readImage(path, cwd);
    const header = readImageHeader(bytes);
    if (header === null) throw new ToolError(`${path} is not a PNG, JPEG, GIF or WebP image`);
    const { mediaType, width, height } = header;
    if (width === 0 || height === 0) throw new ToolError(`${path} has no pixels (${width}×${height})`);
    if (width > MAX_SIDE_PIXELS || height > MAX_SIDE_PIXELS) {
      throw new ToolError(
        `${path} is too large: ${width}×${height} pixels, allowed are ${MAX_SIDE_PIXELS} per side; scale it down first`,
      );
    }
    return {
      content: `${path}: ${mediaType}, ${width}×${height} pixels, ${bytes.length} bytes`,
      isError: false,
      image: { mediaType, data: bytes.toString('base64') },
    };
  },
});

async function readImage(path: string, cwd: string): Promise<Buffer> {
  const handle = await openInside(path, await boundsOf(cwd));
  try {
    // One byte more than allowed: the file may grow after any look at its size.
    const buffer = Buffer.allocUnsafe(MAX_IMAGE_BYTES + 1);
    let length = 0;
    for (;;) {
      const { bytesRead } = await handle.read(buffer, length, buffer.length - length, null);
      length += bytesRead;
      if (length > MAX_IMAGE_BYTES) throw new ToolError(`${path} has more than 5 MiB`);
      if (bytesRead === 0) return buffer.subarray(0, length);
    }
  } finally {
    await handle.close();
  }
}
