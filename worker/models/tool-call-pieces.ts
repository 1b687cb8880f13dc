// Puts the pieces of streamed tool calls together, for servers that number them rightly and for those that do not.
// Pure; never repairs or parses arguments.

export interface ToolCall {
  id: string;
  name: string;
  /** The JSON text as the model wrote it; not checked. */
  arguments: string;
}

interface Piece {
  index: number | undefined;
  id: string;
  name: string;
  args: string;
}

function readPiece(value: unknown): Piece | null {
  if (typeof value !== 'object' || value === null) return null;
  const piece = value as { index?: unknown; id?: unknown; function?: unknown };
  const call = (typeof piece.function === 'object' && piece.function !== null ? piece.function : {}) as {
    name?: unknown;
    arguments?: unknown;
  };
  const args = call.arguments;
  return {
    index: typeof piece.index === 'number' ? piece.index : undefined,
    id: typeof piece.id === 'string' ? piece.id : '',
    name: typeof call.name === 'string' ? call.name : '',
    args: typeof args === 'string' ? args : args === undefined || args === null ? '' : JSON.stringify(args),
  };
}

function isWhole(text: string): boolean {
  try {
    JSON.parse(text);
    return true;
  } catch {
    return false;
  }
}

/** The call that a piece continues, or undefined when it begins a new one. */
function continued(calls: ToolCall[], byIndex: Map<number, ToolCall>, piece: Piece): ToolCall | undefined {
  const last = calls.at(-1);
  const slot = piece.index === undefined ? last : byIndex.get(piece.index);
  if (piece.id !== '') {
    if (slot !== undefined && (slot.id === piece.id || slot.id === '')) return slot;
    // The same id under another number, without a name, is the rest of that call.
    return piece.name === '' ? calls.find((call) => call.id === piece.id) : undefined;
  }
  if (piece.name === '') return slot ?? last;
  // A name without an id: a repeated name goes on; after a whole call it begins the next one (all indices 0).
  if (slot === undefined || (slot.arguments !== '' && isWhole(slot.arguments))) return undefined;
  return slot;
}

export interface PieceCollector {
  /** One entry of `delta.tool_calls`. */
  add(value: unknown): void;
  /** UTF-16 units of arguments so far. */
  size(): number;
  /** The calls in order; ids missing or doubled are replaced by `<prefix>_<n>`. */
  calls(prefix: string): ToolCall[];
}

export function createPieceCollector(): PieceCollector {
  const calls: ToolCall[] = [];
  const byIndex = new Map<number, ToolCall>();
  let size = 0;
  return {
    add(value) {
      const piece = readPiece(value);
      if (piece === null) return;
      size += piece.args.length;
      let call = continued(calls, byIndex, piece);
      if (call === undefined) {
        call = { id: piece.id, name: piece.name, arguments: piece.args };
        calls.push(call);
      } else {
        if (call.id === '') call.id = piece.id;
        if (piece.name !== call.name && call.arguments === '') call.name += piece.name;
        call.arguments += piece.args;
      }
      if (piece.index !== undefined) byIndex.set(piece.index, call);
    },
    size: () => size,
    calls(prefix) {
      const seen = new Set<string>();
      return calls.map((call, position) => {
        let id = call.id;
        if (id === '' || seen.has(id)) id = `${prefix}_${position + 1}`;
        seen.add(id);
        return { id, name: call.name, arguments: call.arguments };
      });
    },
  };
}
