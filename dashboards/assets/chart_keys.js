// The keyboard in a chart whose points lead somewhere (parts.graph with `keys`): one stop for Tab, arrows from point to
// point, Home and End, Enter to follow. What Plotly shows of a point under a pointer is shown, and read out.
(function () {
  "use strict";
  var SHOWN_MS = 80;  // Plotly waits up to 50 ms with what it shows of a point
  var places = {};  // by chart, the point that the reader is at

  function chartOf(event) { return event.target.matches && event.target.matches(".gl-graph[data-keys]") ? event.target : null; }

  // The points with a link, from left to right: [place on the axis, link], one for each place.
  function pointsOf(plot) {
    var links = new Map();
    plot.data.forEach(function (trace) {
      (trace.customdata || []).forEach(function (said, at) {
        var href = [].concat(said)[0], x = trace.x[at];
        if (typeof href === "string" && href.charAt(0) === "/" && !links.has(x)) links.set(x, href);
      });
    });
    return Array.from(links).sort(function (one, other) { return one[0] < other[0] ? -1 : 1; });
  }

  function drawnIn(chart) {
    var plot = chart.querySelector(".js-plotly-plot");
    return plot && plot.data && plot._fullLayout && plot._fullLayout.xaxis ? plot : null;
  }

  // The lines of what Plotly shows, as they are read.
  function said(plot) {
    var lines = plot.querySelectorAll(".hoverlayer text");
    return Array.from(lines).map(function (text) {
      var parts = text.querySelectorAll("tspan.line");
      return Array.from(parts.length ? parts : [text]).map(function (one) { return one.textContent; }).join(", ");
    }).filter(Boolean).join("; ");
  }

  function show(chart, plot, points, at) {
    places[chart.id] = points[at][0];
    chart.setAttribute("aria-valuemax", points.length);
    window.Plotly.Fx.hover(plot, { xval: plot._fullLayout.xaxis.d2c(points[at][0]), yval: 0 });
    setTimeout(function () {
      chart.setAttribute("aria-valuetext", said(plot) || String(points[at][0]));
      chart.setAttribute("aria-valuenow", at + 1);
    }, SHOWN_MS);
  }

  function placeIn(chart, points) {
    return points.findIndex(function (one) { return one[0] === places[chart.id]; });
  }

  function moved(key, at, last) {
    switch (key) {
      case "ArrowRight": case "ArrowUp": return Math.min(at + 1, last);
      case "ArrowLeft": case "ArrowDown": return Math.max(at - 1, 0);
      case "Home": return 0;
      case "End": return last;
    }
    return null;
  }

  document.addEventListener("keydown", function (event) {
    var chart = chartOf(event), plot = chart && drawnIn(chart);
    if (!plot || event.altKey || event.ctrlKey || event.metaKey || event.shiftKey) return;
    var points = pointsOf(plot), at = placeIn(chart, points);
    if (event.key === "Enter" && at >= 0) return window.dash_clientside.gl.follow({ points: [{ customdata: points[at][1] }] });
    var to = moved(event.key, at, points.length - 1);
    if (to === null || !points.length) return;
    event.preventDefault();
    show(chart, plot, points, to);
  });

  document.addEventListener("focusin", function (event) {
    var chart = chartOf(event), plot = chart && drawnIn(chart);
    if (!plot || !chart.matches(":focus-visible")) return;
    var points = pointsOf(plot);
    if (points.length) show(chart, plot, points, Math.max(0, placeIn(chart, points)));
  });

  document.addEventListener("focusout", function (event) {
    var chart = chartOf(event), plot = chart && drawnIn(chart);
    if (plot) window.Plotly.Fx.unhover(plot);
  });
})();
