"""Check in a browser that no page of the built site is wider than a telephone or a small screen.

``python docs/check_widths.py docs/_build/html`` opens every page in frames of 390 and 1280 pixels. A page
fails if it scrolls sideways, or if a table is cut off at 1280 pixels. Without a browser nothing is checked.
"""

import json
import os
import shutil
import subprocess
import sys
import tempfile
import threading
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

WIDTHS = (390, 1280)
#: Programs that are tried in this order, after that of the environment variable BROWSER.
BROWSERS = ("chromium", "chromium-browser", "google-chrome", "chrome")
#: Seconds after which the browser has failed.
_PATIENCE = 1800

_HARNESS = """<!doctype html><body><script>
const pages = PAGES, widths = WIDTHS, found = [];
const pause = (time) => new Promise((done) => setTimeout(done, time));
async function measure(page, width) {
  const frame = document.createElement("iframe");
  frame.style.cssText = `width: ${width}px; height: 800px; border: 0`;
  frame.src = page;
  const loaded = new Promise((done) => { frame.onload = done; });
  document.body.append(frame);
  await loaded;
  await pause(400);  // formulas are set after the page has loaded
  const root = frame.contentDocument.documentElement;
  for (const box of [root, ...root.querySelectorAll(".bd-article-container")])
    if (box.scrollWidth > box.clientWidth + 1)
      found.push(`${page}: ${box.scrollWidth} pixels in ${box.clientWidth} at ${width}`);
  if (width === Math.max(...widths))
    for (const table of root.querySelectorAll(".pst-scrollable-table-container"))
      if (table.scrollWidth > table.clientWidth + 1)
        found.push(`${page}: a table of ${table.scrollWidth} pixels in ${table.clientWidth} at ${width}`);
  frame.remove();
}
(async () => {
  for (const page of pages) await Promise.all(widths.map((width) => measure(page, width)));
  await fetch("/found", { method: "POST", body: JSON.stringify(found) });
})();
</script>"""


class _Site(SimpleHTTPRequestHandler):
    """The site, a page that measures the others, and the receiver of what it finds."""

    def __init__(
        self, *args: Any, harness: str, found: list[str], done: threading.Event, **params: Any
    ) -> None:
        self.harness, self.found, self.done = harness, found, done
        super().__init__(*args, **params)

    def do_GET(self) -> None:
        if self.path != "/widths":
            return super().do_GET()
        self.send_response(200)
        self.send_header("Content-Type", "text/html")
        self.end_headers()
        self.wfile.write(self.harness.encode())
        return None

    def do_POST(self) -> None:
        self.found += json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        self.send_response(204)
        self.end_headers()
        self.done.set()

    def log_message(self, *args: Any) -> None:
        pass


def browser() -> str | None:
    """Return the path of a browser, or None."""
    names = [name for name in (os.environ.get("BROWSER"), *BROWSERS) if name]
    return next((path for name in names if (path := shutil.which(name))), None)


def wide_pages(site: Path, program: str) -> list[str]:
    """Return what is wider than the screen, one sentence for each."""
    pages = sorted(
        f"/{path.relative_to(site).as_posix()}"
        for path in site.rglob("*.html")
        if "_static" not in path.relative_to(site).parts
    )
    harness = _HARNESS.replace("PAGES", json.dumps(pages)).replace("WIDTHS", json.dumps(WIDTHS))
    found, done = list[str](), threading.Event()
    handler = partial(_Site, directory=str(site), harness=harness, found=found, done=done)
    with (
        tempfile.TemporaryDirectory() as folder,
        ThreadingHTTPServer(("127.0.0.1", 0), handler) as server,
    ):
        # a browser may close a connection early
        server.handle_error = lambda *_: None  # type: ignore[method-assign]
        threading.Thread(target=server.serve_forever, daemon=True).start()
        address = f"http://127.0.0.1:{server.server_port}/widths"
        options = ["--headless", "--no-sandbox", "--disable-gpu", "--remote-debugging-port=0"]
        command = [program, *options, f"--user-data-dir={folder}", address]
        with subprocess.Popen(
            command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        ) as process:
            finished = done.wait(_PATIENCE)
            process.terminate()
        server.shutdown()
    if not finished:
        raise TimeoutError(f"{program} has not measured {len(pages)} pages within {_PATIENCE} s.")
    return found


if __name__ == "__main__":
    chosen = browser()
    if chosen is None:
        print(f"skipped: no browser is found, such as {BROWSERS[0]}; BROWSER= names another one")
        sys.exit(0)
    wide = wide_pages(Path(sys.argv[1]).resolve(), chosen)
    print("\n".join(wide) or f"every page fits, at {' and '.join(map(str, WIDTHS))} pixels")
    sys.exit(bool(wide))
