/** The server-sent events of a response's body as they arrive: `{at, data}`, or `{at, comment}` of a line that is
 * none. `at` is performance.now(). */
export async function* events(body) {
  const reader = body.pipeThrough(new TextDecoderStream()).getReader();
  let rest = "";
  let data = [];
  try {
    for (;;) {
      const { value, done } = await reader.read();
      if (done) return;
      const at = performance.now();
      const lines = (rest + value).split("\n");
      rest = lines.pop();
      for (const line of lines.map((line) => line.replace(/\r$/, ""))) {
        if (line.startsWith(":")) {
          yield { at, comment: line.slice(1).trim() };
        } else if (line.startsWith("data:")) {
          data.push(line.slice(5).replace(/^ /, ""));
        } else if (line === "" && data.length) {
          yield { at, data: data.join("\n") };
          data = [];
        }
      }
    }
  } finally {
    reader.cancel().catch(() => {}); // of one that is not read to its end
  }
}
