// Comfort only: every page works without it.
"use strict";

// Forms that apply at once. The button stays for whoever has no script, and for the keyboard in text fields.
for (const form of document.querySelectorAll("form[data-auto]")) {
  for (const select of form.querySelectorAll("select")) {
    select.addEventListener("change", () => form.requestSubmit());
  }
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
  const cells = Array.from(heat.querySelectorAll(".cells a"));
  const readout = document.getElementById("readout");
  const resting = readout.textContent;
  let current = cells[0];
  cells.forEach((cell, index) => { cell.tabIndex = index ? -1 : 0; });
  const indexes = new Map(cells.map((cell, index) => [cell, index]));
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
