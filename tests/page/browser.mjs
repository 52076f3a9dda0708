// A headless Chromium, spoken to by its DevTools protocol over pipes: no package is needed, and no port is open.
// Source: "Chrome DevTools Protocol"; --remote-debugging-pipe reads from descriptor 3 and writes to 4, each message ended by NUL.

import { spawn } from "node:child_process";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";

const ANSWER_MS = 20_000;

export class Browser {
  #waiting = new Map();
  #last = 0;
  #rest = "";

  constructor(program) {
    this.folder = mkdtempSync(join(tmpdir(), "page-"));
    const flags = ["--headless=new", "--remote-debugging-pipe", `--user-data-dir=${this.folder}`, "--no-first-run",
      "--disable-gpu", "--disable-dev-shm-usage", "--hide-scrollbars", "--force-color-profile=srgb", "about:blank"];
    // Chromium's sandbox does not start as root.
    if (process.getuid() === 0) flags.unshift("--no-sandbox");
    this.process = spawn(program, flags, { detached: true, stdio: ["ignore", "ignore", "pipe", "pipe", "pipe"] });
    this.said = "";
    this.process.stderr.on("data", (bytes) => (this.said = (this.said + bytes).slice(-4000)));
    this.ended = new Promise((resolve) => this.process.once("exit", resolve));
    this.process.once("exit", () => this.#waiting.forEach(({ reject }) => reject(new Error(`Chromium ended:\n${this.said}`))));
    this.events = [];
    this.process.stdio[3].on("error", () => {});
    this.process.stdio[4].setEncoding("utf8");
    this.process.stdio[4].on("data", (text) => this.#read(text));
  }

  #read(text) {
    const messages = (this.#rest + text).split("\0");
    this.#rest = messages.pop();
    for (const message of messages.map((each) => JSON.parse(each))) {
      const waiting = this.#waiting.get(message.id);
      if (!waiting) {
        this.events.push(message);
        continue;
      }
      this.#waiting.delete(message.id);
      clearTimeout(waiting.timer);
      if (message.error) waiting.reject(new Error(`${waiting.method}: ${message.error.message}`));
      else waiting.resolve(message.result);
    }
  }

  send(method, params = {}, sessionId = undefined) {
    const id = ++this.#last;
    return new Promise((resolve, reject) => {
      const timer = setTimeout(() => reject(new Error(`${method}: no answer within ${ANSWER_MS / 1000} s\n${this.said}`)), ANSWER_MS);
      this.#waiting.set(id, { method, resolve, reject, timer });
      this.process.stdio[3].write(`${JSON.stringify({ id, method, params, sessionId })}\0`);
    });
  }

  async open(url) {
    const { targetId } = await this.send("Target.createTarget", { url: "about:blank" });
    const { sessionId } = await this.send("Target.attachToTarget", { targetId, flatten: true });
    const page = new Page(this, sessionId);
    for (const domain of ["Page", "Runtime", "Log", "Network"]) await page.send(`${domain}.enable`);
    await page.send("Page.navigate", { url });
    return page;
  }

  async close() {
    // Its children too: they write to the folder.
    process.kill(-this.process.pid, "SIGKILL");
    await this.ended;
    rmSync(this.folder, { recursive: true, force: true, maxRetries: 20 });
  }
}

class Page {
  constructor(browser, sessionId) {
    this.browser = browser;
    this.sessionId = sessionId;
  }

  send(method, params) {
    return this.browser.send(method, params, this.sessionId);
  }

  // The value of an expression, in the page.
  async value(expression) {
    const { result, exceptionDetails } = await this.send("Runtime.evaluate", { expression, returnByValue: true, awaitPromise: true });
    if (exceptionDetails) throw new Error(`${expression}: ${exceptionDetails.exception?.description ?? exceptionDetails.text}`);
    return result.value;
  }

  // Until the expression is true.
  async until(expression, what, seconds = 20) {
    const end = Date.now() + seconds * 1000;
    while (!(await this.value(`Boolean(${expression})`))) {
      if (Date.now() > end) throw new Error(`not within ${seconds} s: ${what}`);
      await new Promise((resolve) => setTimeout(resolve, 50));
    }
  }

  // A click of the mouse in the middle of the first element of that kind.
  async click(selector) {
    const at = await this.value(`(() => {
      const element = document.querySelector(${JSON.stringify(selector)});
      element.scrollIntoView({ block: "center" });
      const { x, y, width, height } = element.getBoundingClientRect();
      return { x: x + width / 2, y: y + height / 2 };
    })()`);
    for (const type of ["mousePressed", "mouseReleased"]) {
      await this.send("Input.dispatchMouseEvent", { type, ...at, button: "left", clickCount: 1 });
    }
  }

  // The pointer near the right end of the first element of that kind.
  async point(selector) {
    const at = await this.value(`(() => {
      const element = document.querySelector(${JSON.stringify(selector)});
      element.scrollIntoView({ block: "center" });
      const { x, y, width, height } = element.getBoundingClientRect();
      return { x: x + width * 0.98, y: y + height / 2 };
    })()`);
    await this.send("Input.dispatchMouseEvent", { type: "mouseMoved", ...at });
  }

  async key(key, code = key, text = undefined) {
    for (const type of ["keyDown", "keyUp"]) {
      const codes = { Enter: 13, Tab: 9 };
      await this.send("Input.dispatchKeyEvent", { type, key, code, text: type === "keyDown" ? text : undefined, windowsVirtualKeyCode: codes[key] });
    }
  }

  type(text) {
    return this.send("Input.insertText", { text });
  }

  async look({ width, height = 900, dark = false, phone = false }) {
    await this.send("Emulation.setDeviceMetricsOverride", { width, height, deviceScaleFactor: phone ? 2 : 1, mobile: phone });
    await this.send("Emulation.setEmulatedMedia", { features: [{ name: "prefers-color-scheme", value: dark ? "dark" : "light" }] });
  }

  // The whole page, as a PNG.
  async shoot(file) {
    await this.value("new Promise((resolve) => requestAnimationFrame(() => requestAnimationFrame(resolve)))");
    const { data } = await this.send("Page.captureScreenshot", { format: "png", captureBeyondViewport: true });
    writeFileSync(file, Buffer.from(data, "base64"));
  }

  // What went wrong in the page: errors of scripts, of the policy, of requests.
  troubles() {
    return this.browser.events.flatMap(({ method, params }) => {
      if (method === "Runtime.exceptionThrown") return [params.exceptionDetails.exception?.description ?? params.exceptionDetails.text];
      if (method === "Log.entryAdded" && params.entry.level === "error") return [`${params.entry.text} ${params.entry.url ?? ""}`];
      return [];
    });
  }

  // All that it asked for.
  requests() {
    return this.browser.events.filter(({ method }) => method === "Network.requestWillBeSent").map(({ params }) => params.request.url);
  }
}
