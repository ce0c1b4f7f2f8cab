// Pyodide's memory, kept for the next start in the browser's Cache Storage.

const CACHE = "mxlab-snapshots";

/** The memory of an earlier start, or nothing: no Cache Storage on plain http or in private. */
export async function recall(key) {
  try {
    const found = await (await caches.open(CACHE)).match(key);
    return found && new Uint8Array(await found.arrayBuffer());
  } catch {
    return undefined;
  }
}

/** Keep the memory for the next start; forget those of older builds of this site. */
export async function remember(key, memory) {
  try {
    const cache = await caches.open(CACHE), site = new URL("../", key).href;
    for (const { url } of await cache.keys()) {
      if (url.startsWith(site) && url !== key) await cache.delete(url);
    }
    await cache.put(key, new Response(memory));
  } catch { /* the next start is a slow one */ }
}

/** Pyodide starts with 30 MB and restores into that; a memory that had grown needs as much. */
export function makeRoom(length) {
  for (const name of ["instantiate", "instantiateStreaming"]) {
    const plain = WebAssembly[name];
    WebAssembly[name] = async (...given) => {
      const made = await plain.apply(WebAssembly, given);
      const { memory } = (made.instance ?? made).exports;
      const missing = length - (memory?.buffer.byteLength ?? length);
      if (missing > 0) memory.grow(Math.ceil(missing / 65536));
      return made;
    };
  }
}
