// Comfort only: every page works without it.
"use strict";

const settled = [];  // called after the page was read again
// What has to be set up in an element, at the start and for what a new reading adds.
const prepare = (root) => {
  // Forms that apply at once. The button stays for whoever has no script, and for the keyboard in text fields.
  for (const form of root.querySelectorAll("form[data-auto]")) {
    for (const select of form.querySelectorAll("select")) {
      select.addEventListener("change", () => form.requestSubmit());
    }
  }
};
prepare(document);

// A page is read again in place: elements stay, so that scroll, focus, open details and what is typed stay, too.
const KEYED = "[id], [data-key], .cells a";
const keyOf = (node) => {
  if (node.nodeType !== Node.ELEMENT_NODE || !node.matches(KEYED)) { return ""; }
  return node.id || node.dataset.key || node.getAttribute("href");
};
const OWN = new Set(["open", "value", "checked", "selected"]);  // the reader's, once the page is there

const merge = (old, fresh) => {
  if (old.nodeType !== Node.ELEMENT_NODE) {
    if (old.data !== fresh.data) { old.data = fresh.data; }
    return;
  }
  if (old.hasAttribute("data-live")) {
    old.firstElementChild.textContent = fresh.firstElementChild.textContent;
    return;
  }
  for (const { name } of Array.from(old.attributes)) {
    if (!fresh.hasAttribute(name) && !OWN.has(name)) { old.removeAttribute(name); }
  }
  for (const { name, value } of fresh.attributes) {
    if (!OWN.has(name) && old.getAttribute(name) !== value) { old.setAttribute(name, value); }
  }
  mergeChildren(old, fresh);
};

// Children with a key stay whatever is before them; others are what they were if they are alike and in the same place.
const mergeChildren = (old, fresh) => {
  const keys = new Set(Array.from(fresh.childNodes, keyOf));
  const kept = new Map(Array.from(old.childNodes, (node) => [keyOf(node), node]));
  let next = old.firstChild;
  const drop = () => { const gone = next; next = next.nextSibling; gone.remove(); };
  for (const child of Array.from(fresh.childNodes)) {
    const key = keyOf(child);
    while (next && keyOf(next) && !keys.has(keyOf(next))) { drop(); }
    while (!key && next && !keyOf(next) && next.nodeName !== child.nodeName) { drop(); }
    const match = key ? kept.get(key) : next && !keyOf(next) ? next : null;
    if (match && match.nodeName === child.nodeName) {
      kept.delete(key);
      if (match === next) { next = next.nextSibling; } else { old.insertBefore(match, next); }
      merge(match, child);
    } else {
      const added = document.importNode(child, true);
      old.insertBefore(added, next);
      if (added.nodeType === Node.ELEMENT_NODE) { prepare(added); }
    }
  }
  while (next) { drop(); }
};

const take = (text) => {
  const fresh = new DOMParser().parseFromString(text, "text/html");
  const focused = document.activeElement;
  const holder = focused.closest(KEYED);
  const [key, isHolder] = [holder && keyOf(holder), holder === focused];
  for (const selector of [".brand > span", "main"]) {
    const [old, next] = [document.querySelector(selector), fresh.querySelector(selector)];
    if (old && next) { merge(old, next); }
  }
  settled.forEach((settle) => settle());
  // What was moved or made anew has lost the focus.
  if (focused.isConnected) { focused.focus({ preventScroll: true }); return; }
  const again = key && Array.from(document.querySelectorAll(KEYED)).find((node) => keyOf(node) === key);
  if (again) { (isHolder ? again : again.querySelector(focused.nodeName))?.focus({ preventScroll: true }); }
};

const problemOf = (text) => {
  const head = new DOMParser().parseFromString(text, "text/html").querySelector("main p[role=alert], main .head p");
  return head ? head.textContent.trim() : "the server does not answer as usual";
};

// Pages about this moment: read again every few seconds while they are seen, until somebody pauses them.
for (const note of document.querySelectorAll("[data-live]")) {
  const [button, problem] = [note.querySelector("button"), note.querySelector("[role=alert]")];
  let reading = false;
  button.hidden = false;
  button.addEventListener("click", () => {
    const paused = button.getAttribute("aria-pressed") !== "true";
    button.setAttribute("aria-pressed", String(paused));
  });
  const read = async () => {
    if (reading || document.hidden || button.getAttribute("aria-pressed") === "true") { return; }
    reading = true;
    try {
      const answer = await fetch(location.href);
      const text = await answer.text();
      if (answer.ok) { take(text); }
      problem.textContent = answer.ok ? "" : `Not read again: ${problemOf(text)}`;
    } catch {
      problem.textContent = "Not read again: the server does not answer.";
    } finally {
      reading = false;
    }
  };
  setInterval(read, 1000 * Number(note.dataset.live));
}

// A form whose answer is this page again, such as a new snapshot.
for (const form of document.querySelectorAll("form[data-swap]")) {
  const button = form.querySelector("button");
  const name = button.textContent;
  form.addEventListener("submit", async (event) => {
    event.preventDefault();
    button.disabled = true;
    button.textContent = "Reading …";
    try {
      const answer = await fetch(form.action, { method: "POST", body: new URLSearchParams(new FormData(form)) });
      const text = await answer.text();
      if (answer.ok) { take(text); }
      button.textContent = answer.ok ? name : `${name} (${problemOf(text)})`;
    } catch {
      button.textContent = `${name} (the server does not answer)`;
    } finally {
      button.disabled = false;
    }
  });
}

// The moment of a recording: its time is shown while the slider moves, and its page once the slider rests, so that
// arrow keys can go on. The slider keeps the focus: the address of the new page ends in its id.
for (const slider of document.querySelectorAll("input[type=range][data-start]")) {
  const output = slider.form.querySelector("output strong");
  const start = Number(slider.dataset.start);
  const step = Number(slider.dataset.step);
  let resting = 0;
  slider.addEventListener("input", () => {
    const time = new Date(1000 * (start + slider.valueAsNumber * step)).toISOString();
    output.textContent = `${time.slice(0, 10)} ${time.slice(11, 19)} UTC`;
    output.parentElement.lastChild.textContent = "";
    slider.setAttribute("aria-valuetext", output.textContent);
  });
  slider.addEventListener("change", () => {
    clearTimeout(resting);
    resting = setTimeout(() => slider.form.requestSubmit(), 400);
  });
  if (location.hash === "#moment") { slider.focus(); }
}

// A heat map is one stop of the Tab key; the arrows move inside it.
for (const heat of document.querySelectorAll("[data-heat]")) {
  const readout = document.getElementById("readout");
  const resting = readout.textContent;
  let [cells, indexes, current] = [[], new Map(), null];
  const settle = () => {
    cells = Array.from(heat.querySelectorAll(".cells a"));
    indexes = new Map(cells.map((cell, index) => [cell, index]));
    if (!indexes.has(current)) { current = cells[0]; }
    for (const cell of cells) { cell.tabIndex = cell === current ? 0 : -1; }
  };
  settle();
  settled.push(settle);
  const describe = (cell) => { readout.textContent = cell ? cell.textContent : resting; };

  const moveTo = (cell) => {
    if (!cell) { return; }
    current.tabIndex = -1;
    current = cell;
    current.tabIndex = 0;
    current.focus();
  };
  // The cell above or below: the one that is nearest in the next line of cells, in this group or the next one.
  const vertical = (from, step) => {
    const start = from.getBoundingClientRect();
    let line = null;
    let best = null;
    for (let index = indexes.get(from) + step; index >= 0 && index < cells.length; index += step) {
      const place = cells[index].getBoundingClientRect();
      if (Math.abs(place.top - start.top) < 2) { continue; }
      if (line === null) { line = place.top; }
      if (Math.abs(place.top - line) >= 2) { break; }
      if (best === null || Math.abs(place.left - start.left) < Math.abs(best.left - start.left)) {
        best = { left: place.left, cell: cells[index] };
      }
    }
    return best && best.cell;
  };
  const keys = {
    ArrowRight: (cell) => cells[indexes.get(cell) + 1],
    ArrowLeft: (cell) => cells[indexes.get(cell) - 1],
    ArrowDown: (cell) => vertical(cell, 1),
    ArrowUp: (cell) => vertical(cell, -1),
    Home: () => cells[0],
    End: () => cells[cells.length - 1],
  };
  heat.addEventListener("keydown", (event) => {
    const cell = event.target.closest(".cells a");
    const move = keys[event.key];
    if (cell && move && !event.altKey && !event.ctrlKey && !event.metaKey) {
      event.preventDefault();
      moveTo(move(cell));
    }
  });
  heat.addEventListener("focusin", (event) => describe(event.target.closest(".cells a")));
  heat.addEventListener("focusout", () => describe(null));
  heat.addEventListener("mouseover", (event) => describe(event.target.closest(".cells a")));
  heat.addEventListener("mouseleave", () => describe(null));
}
