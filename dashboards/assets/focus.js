// The keyboard's place. A page that is drawn again, as after a filter or a new period, has other elements in place of those
// that were there, and the browser lets go of the one that had the focus. Its successor gets it.
(function () {
  "use strict";
  var REGIONS = "#skip, #nav, #bar, #tour, #page, #foot";
  var RELOADED = "gpuledger-place";  // the place on a page that a form loads again (forms.js)
  var DRAWN_MS = 50, LOOK_MS = 100, LATEST_MS = 3000;  // parts of a page load after it
  var ESCAPE = { key: "Escape", code: "Escape", bubbles: true };
  var byKeyboard = false, place = null, last = null;

  // Buttons of forms are told apart by what they do, so that none ever stands in for that of another row.
  function nameOf(element) {
    if (element.matches(":is(.gl-heat, .gl-layouts) a")) return element.getAttribute("href");  // its value may be another by now
    var form = element.form && element.form.dataset.api ? element.form : null;
    var said = element.getAttribute("aria-label") || element.title || element.textContent.trim() || element.value || element.name || "";
    return form ? [said, form.dataset.api, form.dataset.body || ""].join(" ") : said;
  }

  function alike(region, wanted) {
    return Array.from(region.getElementsByTagName(wanted.tag)).filter(function (one) { return nameOf(one) === wanted.name; });
  }

  // Where an element is, so that its successor is found. A table keeps its own place (frame.js) as long as its page is there.
  function placeOf(element) {
    if (element.closest(".gl-period-menu")) return { one: ".gl-period-button" };
    if (element.id && !/mantine/.test(element.id) && element.id !== "page") return { one: "#" + CSS.escape(element.id), path: location.pathname };
    if (element.classList.contains("gl-period-button")) return { one: ".gl-period-button" };
    var region = element.closest(REGIONS);
    if (!region || element === region) return null;
    if (element.closest(".ag-root")) return { table: location.pathname + location.search };
    var found = { region: region.id, path: location.pathname, tag: element.tagName, name: nameOf(element) };
    found.nth = alike(region, found).indexOf(element);
    return found;
  }

  function successor(of) {
    if (of.table) return null;
    if (of.one) return document.querySelector(of.one);
    var region = document.getElementById(of.region);
    return region ? alike(region, of)[of.nth] : null;
  }

  function isFree() { return !document.activeElement || document.activeElement === document.body; }

  function give(element) {
    element.focus({ preventScroll: true });
    // A filter shows its choices when it gets the focus; the reader has chosen.
    if (element.closest(".gl-filters")) setTimeout(function () { element.dispatchEvent(new KeyboardEvent("keydown", ESCAPE)); });
  }

  // The beginning of the bar or of the page, where nothing has taken its place.
  function beginning(of) {
    var isBar = of.region === "bar";
    return (isBar && document.querySelector("#bar :is(a, button, input)")) || document.getElementById("page");
  }

  // before: the element that had the focus, which may not have been taken away yet.
  function goOn(of, before, until) {
    if (of.table === location.pathname + location.search) return;
    var isLate = Date.now() > until, isThere = before && before.isConnected;
    if (isThere ? isLate : !isFree()) return;
    var found = !isThere && successor(of);
    if (found) return give(found);
    if (!isThere && (isLate || of.path !== location.pathname)) return give(beginning(of));
    setTimeout(function () { goOn(of, before, until); }, LOOK_MS);
  }

  function drawn() {
    var kept = JSON.parse(sessionStorage.getItem(RELOADED) || "null");
    sessionStorage.removeItem(RELOADED);
    var of = kept || (byKeyboard ? place : null), before = kept ? null : last;
    if (of) setTimeout(function () { goOn(of, before, Date.now() + LATEST_MS); }, DRAWN_MS);
  }

  document.addEventListener("keydown", function () { byKeyboard = true; }, true);
  document.addEventListener("pointerdown", function () { byKeyboard = false; }, true);
  document.addEventListener("focusin", function (event) {
    last = event.target;
    place = placeOf(last);
  });
  document.addEventListener("gl-drawn", drawn);
  document.addEventListener("gl-reload", function () {
    if (byKeyboard && place) sessionStorage.setItem(RELOADED, JSON.stringify(place));
  });
})();
