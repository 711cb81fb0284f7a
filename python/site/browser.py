"""Looks at the pages of a built site in Chromium: light and dark, 400 and 1,400 pixels wide.

    browser.py FOLDER [--pictures FOLDER [--whole]] [--pages PATTERN]

Prints a line for each breach, and exits 1 if there is one: a page that is wider than its window,
text with too little contrast (WCAG 2.1 AA: 4.5, or 3 for large text), a picture that does not load,
a ground that is light on a dark desktop or dark on a light one, a drawing whose text is cut off, a
request to the network. --pictures writes a picture of each view, with --whole of the whole page.
Needs Debian's package chromium.
"""

import argparse
import base64
import fnmatch
import json
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile

WIDTHS = (400, 1400)
HEIGHT = 900
SCHEMES = ("light", "dark")

#: Returns the breaches of the page as texts. A background is that of the nearest ancestors, mixed.
EXAMINE = """(() => {
  const found = new Set();
  const page = document.documentElement;
  if (page.scrollWidth > window.innerWidth) {
    const wide = [...document.querySelectorAll('body *')].filter(each =>
      each.getBoundingClientRect().right > window.innerWidth + 1 && each.children.length === 0);
    found.add(`expected at most ${window.innerWidth} pixels, found ${page.scrollWidth}: ` +
              wide.slice(0, 3).map(each => each.outerHTML.slice(0, 80)).join(' '));
  }
  for (const image of document.images) {
    if (image.complete && image.naturalWidth === 0) found.add(`no picture: ${image.src}`);
  }
  for (const each of performance.getEntriesByType('resource')) {
    if (/^(https?|wss?):/.test(each.name)) found.add(`network access: ${each.name}`);
  }
  for (const text of document.querySelectorAll('svg text')) {
    const own = text.getBoundingClientRect();
    const all = text.ownerSVGElement.getBoundingClientRect();
    if (own.left < all.left - 1 || own.right > all.right + 1 || own.top < all.top - 1 ||
        own.bottom > all.bottom + 1) found.add(`cut off: ${text.textContent.slice(0, 40)}`);
  }
  const canvas = document.createElement('canvas').getContext('2d', {willReadFrequently: true});
  const known = new Map();
  const parts = colour => {
    if (!known.has(colour)) {
      canvas.clearRect(0, 0, 1, 1);
      canvas.fillStyle = colour;
      canvas.fillRect(0, 0, 1, 1);
      const [r, g, b, a] = canvas.getImageData(0, 0, 1, 1).data;
      known.set(colour, [r, g, b, a / 255]);
    }
    return known.get(colour);
  };
  const over = (top, below) => [0, 1, 2].map(i => top[i] * top[3] + below[i] * (1 - top[3]));
  const ground = element => {
    if (!element) return [255, 255, 255];
    const own = parts(getComputedStyle(element).backgroundColor);
    return own[3] === 1 ? own.slice(0, 3) : over(own, ground(element.parentElement));
  };
  const light = rgb => {
    const [r, g, b] = rgb.map(v => v / 255).map(v => v <= 0.04045 ? v / 12.92
                                                     : ((v + 0.055) / 1.055) ** 2.4);
    return 0.2126 * r + 0.7152 * g + 0.0722 * b;
  };
  const dark = matchMedia('(prefers-color-scheme: dark)').matches;
  if (light(ground(document.body)) < 0.2 !== dark) {
    found.add(`expected a ${dark ? 'dark' : 'light'} ground, found rgb(` +
              ground(document.body).map(Math.round).join(', ') + ')');
  }
  const texts = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  for (let node = texts.nextNode(); node; node = texts.nextNode()) {
    const element = node.parentElement;
    if (!node.data.trim() || element.closest('script, style, noscript, svg')) continue;
    if (!element.checkVisibility({opacityProperty: true, visibilityProperty: true})) continue;
    const style = getComputedStyle(element), below = ground(element);
    const size = parseFloat(style.fontSize);
    const large = size >= 24 || (size >= 18.66 && parseInt(style.fontWeight) >= 700);
    const [a, b] = [light(over(parts(style.color), below)), light(below)].sort((x, y) => y - x);
    const ratio = (a + 0.05) / (b + 0.05);
    if (ratio < (large ? 3 : 4.5) - 0.005) {
      found.add(`contrast ${ratio.toFixed(2)} of ${style.color} in ` +
                `${element.tagName.toLowerCase()}.${element.className}: ` +
                node.data.trim().slice(0, 40));
    }
  }
  return [...found];
})()"""
#: Lets a page forget the scheme in which it was seen before.
FORGET = "try { localStorage.clear(); } catch (error) {}"
#: Waits until the page has been drawn again.
NEXT_FRAME = "new Promise(done => requestAnimationFrame(() => requestAnimationFrame(done)))"


class Browser:
    """A Chromium without a window, driven over a pair of pipes (DevTools protocol)."""

    def __init__(self, folder):
        program = shutil.which("chromium")
        if program is None:
            raise SystemExit("error: expected chromium, found none; apt-get install chromium")
        to_browser, self._write = os.pipe()
        self._read, from_browser = os.pipe()
        sandbox = ["--no-sandbox"] if os.geteuid() == 0 else []
        command = [program, "--headless=new", "--remote-debugging-pipe", "--hide-scrollbars",
                   "--allow-file-access-from-files", "--disable-gpu", "--no-first-run",
                   f"--user-data-dir={folder}", *sandbox, "about:blank"]  # fmt: skip
        # Chromium reads commands from descriptor 3 and writes answers to descriptor 4.
        shell = f'exec "$@" 3<&{to_browser} 4>&{from_browser}'
        self._process = subprocess.Popen(
            ["bash", "-c", shell, "bash", *command], pass_fds=(to_browser, from_browser),
            stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
        )  # fmt: skip
        os.close(to_browser)
        os.close(from_browser)
        self._count, self._buffer, self._events, self._session = 0, b"", [], {}
        target = self.call("Target.createTarget", url="about:blank")["targetId"]
        session = self.call("Target.attachToTarget", targetId=target, flatten=True)
        self._session = {"sessionId": session["sessionId"]}
        self.call("Page.enable")
        self.call("Page.addScriptToEvaluateOnNewDocument", source=FORGET)

    def close(self):
        """Ends the browser."""
        self._process.terminate()
        self._process.wait()
        os.close(self._write)
        os.close(self._read)

    def call(self, method, **parameters):
        """Returns the answer to a command; exits if the browser refuses the command."""
        self._count += 1
        message = {"id": self._count, "method": method, "params": parameters, **self._session}
        os.write(self._write, json.dumps(message).encode() + b"\0")
        while True:
            answer = self._next_message()
            if answer.get("id") == self._count:
                if "error" in answer:
                    raise SystemExit(f"error: {method}: {answer['error']['message']}")
                return answer["result"]
            self._events.append(answer.get("method"))

    def open(self, path):
        """Opens a file and waits until it is loaded."""
        self._events.clear()
        self.call("Page.navigate", url=path.as_uri())
        while "Page.loadEventFired" not in self._events:
            self._events.append(self._next_message().get("method"))

    def value_of(self, expression):
        """Returns the value of an expression of JavaScript in the page."""
        done = self.call("Runtime.evaluate", expression=expression, returnByValue=True,
                         awaitPromise=True)  # fmt: skip
        if "exceptionDetails" in done:
            raise SystemExit(f"error: {done['exceptionDetails']['exception']['description']}")
        return done["result"].get("value")

    def set_scheme(self, scheme):
        """Lets pages see a light or dark desktop that wants no animations."""
        self.call("Emulation.setEmulatedMedia", features=[
            {"name": "prefers-color-scheme", "value": scheme},
            {"name": "prefers-reduced-motion", "value": "reduce"}])  # fmt: skip

    def set_width(self, width):
        """Sets the width of the window in pixels."""
        self.call("Emulation.setDeviceMetricsOverride", width=width, height=HEIGHT,
                  deviceScaleFactor=1, mobile=False)  # fmt: skip

    def picture(self, whole=False):
        """Returns the window as PNG, or the whole page."""
        part = {}
        if whole:
            size = self.call("Page.getLayoutMetrics")["cssContentSize"]
            part = {"captureBeyondViewport": True, "clip": {**size, "scale": 1}}
        taken = self.call("Page.captureScreenshot", format="png", **part)
        return base64.b64decode(taken["data"])

    def _next_message(self):
        while b"\0" not in self._buffer:
            part = os.read(self._read, 1 << 16)
            if not part:
                raise SystemExit("error: chromium ended; start it by hand to see why")
            self._buffer += part
        message, _, self._buffer = self._buffer.partition(b"\0")
        return json.loads(message)


def breaches(browser, folder, pages, pictures=None, whole=False):
    """Yields (view, breach) of pages; the view is page, scheme and width. A page chooses its scheme
    when it is opened."""
    for page in pages:
        name = page.relative_to(folder).as_posix()
        for scheme in SCHEMES:
            browser.set_scheme(scheme)
            browser.open(page)
            for width in WIDTHS:
                browser.set_width(width)
                browser.value_of(NEXT_FRAME)
                for found in browser.value_of(EXAMINE):
                    yield f"{name}, {scheme}, {width}", found
                if pictures:
                    file = name.removesuffix(".html").replace("/", "_")
                    (pictures / f"{file}-{scheme}-{width}.png").write_bytes(
                        browser.picture(whole))


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("folder", type=pathlib.Path)
    parser.add_argument("--pictures", type=pathlib.Path, help="folder for a picture of each view")
    parser.add_argument("--whole", action="store_true", help="pictures of whole pages")
    parser.add_argument("--pages", default="*", help="pattern of the pages, for example 'plan*'")
    arguments = parser.parse_args()
    folder = arguments.folder.resolve()
    # 404.html names its styles from the root of a server, because it stands for any address.
    pages = [page for page in sorted(folder.rglob("*.html")) if page.name != "404.html" and
             fnmatch.fnmatch(page.relative_to(folder).as_posix(), arguments.pages)]  # fmt: skip
    if arguments.pictures:
        arguments.pictures.mkdir(parents=True, exist_ok=True)
    count = 0
    with tempfile.TemporaryDirectory() as profile:
        browser = Browser(profile)
        for view, found in breaches(browser, folder, pages, arguments.pictures,
                                    arguments.whole):
            print(f"{view}: {found}", flush=True)
            count += 1
        browser.close()
    print(f"browser: {len(pages)} pages, {len(SCHEMES)} schemes, {len(WIDTHS)} widths, "
          f"{count} breaches")  # fmt: skip
    sys.exit(1 if count or not pages else 0)


if __name__ == "__main__":
    main()
