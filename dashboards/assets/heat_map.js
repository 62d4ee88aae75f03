// The keyboard within a map of devices (pages/fleet: the heat map, and how devices are shared): one stop for Tab, arrows
// from cell to cell as they lie on the screen, Home and End within a row, with Ctrl within the map (WAI-ARIA's grid). Enter
// follows a cell, which is a link.
(function () {
  "use strict";
  var MAP = ".gl-heat, .gl-layouts", ROW = ".gl-cells, .gl-layout", CELL = "a.gl-cell, a.gl-layout-name, a.gl-share";

  function cellsOf(map) { return Array.from(map.querySelectorAll(CELL)); }

  function mapOf(event) {
    return event.target.matches && event.target.matches(CELL) ? event.target.closest(MAP) : null;
  }

  // The nearest one in the next line that has any; a node's cells may need several lines, and nodes stand side by side.
  function across(cells, from, down) {
    var here = from.getBoundingClientRect(), found = null, best = null;
    cells.forEach(function (one) {
      var place = one.getBoundingClientRect(), lines = down ? place.top - here.bottom : here.top - place.bottom;
      if (lines < 0) return;
      var rank = [Math.round(lines), Math.abs(place.left - here.left)];
      if (best && (rank[0] > best[0] || (rank[0] === best[0] && rank[1] >= best[1]))) return;
      found = one;
      best = rank;
    });
    return found;
  }

  function target(event, map) {
    var from = event.target, cells = cellsOf(map), at = cells.indexOf(from);
    var ends = event.ctrlKey ? cells : cellsOf(from.closest(ROW));
    switch (event.key) {
      case "ArrowRight": return cells[at + 1];
      case "ArrowLeft": return cells[at - 1];
      case "ArrowDown": return across(cells, from, true);
      case "ArrowUp": return across(cells, from, false);
      case "Home": return ends[0];
      case "End": return ends[ends.length - 1];
    }
    return undefined;
  }

  document.addEventListener("keydown", function (event) {
    var map = mapOf(event);
    if (!map || event.altKey || event.metaKey || event.shiftKey) return;
    var next = target(event, map);
    if (next === undefined && !/^Arrow/.test(event.key)) return;
    event.preventDefault();  // the page does not scroll at the map's edge either
    if (next) next.focus();
  });

  // Tab leads back to where the reader was.
  document.addEventListener("focusin", function (event) {
    var map = mapOf(event);
    if (!map) return;
    cellsOf(map).forEach(function (one) { if (!one.tabIndex) one.tabIndex = -1; });
    event.target.tabIndex = 0;
  });
})();
