// Cell renderers of the tables, as ag-grid looks them up.
var dagcomponentfuncs = (window.dashAgGridComponentFunctions = window.dashAgGridComponentFunctions || {});

// How the held time was used: a small stacked bar; the numbers stand in the columns beside it.
dagcomponentfuncs.UseBar = function (props) {
  var row = props.data || {};
  var whole = row.allocated;
  if (!whole) return "–";
  var parts = ["used", "idle", "unmetered"].map(function (kind) {
    return React.createElement("span", { key: kind, className: "gl-" + kind, style: { width: (100 * row[kind]) / whole + "%" } });
  });
  var label = Math.round((1000 * row.used) / whole) / 10 + "%";
  return React.createElement("div", { className: "gl-stack", role: "img", title: label, "aria-label": label }, parts);
};

// A name that leads somewhere (frame.js follows it without a page load).
dagcomponentfuncs.Go = function (props) {
  var href = (props.data || {})[props.to || "href"];
  var said = props.valueFormatted || props.value;
  return href ? React.createElement("a", { className: "gl-go", href: href, title: props.full ? props.value : said }, said) : said;
};

// A number whose unit stands in a column of its own, which cards lack: there it follows the number.
dagcomponentfuncs.WithUnit = function (props) {
  var said = props.valueFormatted || props.value, unit = (props.data || {})[props.unit];
  return said && unit ? [said, " ", React.createElement("span", { key: "unit", className: "gl-card-unit" }, unit)] : said;
};

// A line of a few numbers, scaled from zero to its greatest; a gap where a number is not known.
dagcomponentfuncs.Spark = function (props) {
  var values = props.value || [];
  if (!values.length) return null;
  var most = Math.max.apply(null, values.filter(function (one) { return one != null; }).concat([1e-9]));
  var path = "", ground = "", run = [], apart = 100 / Math.max(values.length - 1, 1);
  function close() {
    if (!run.length) return;
    // A number alone, as of a month's first day, is a level as wide as its step: a line of one point draws nothing.
    if (run.length === 1) {
      var x = run[0][0], y = run[0][1];
      run = [[Math.max(x - apart / 2, 0), y], [Math.min(x + apart / 2, 100), y]];
    }
    var line = "M" + run.map(function (point) { return point[0].toFixed(1) + " " + point[1].toFixed(1); }).join("L");
    path += line;
    ground += line + "L" + run[run.length - 1][0].toFixed(1) + " 23L" + run[0][0].toFixed(1) + " 23Z";
    run = [];
  }
  values.forEach(function (one, at) {
    if (one == null) return close();
    run.push([values.length > 1 ? apart * at : 50, 22 - (20 * one) / most]);
  });
  close();
  var drawn = [
    React.createElement("path", { key: "ground", d: ground, className: "gl-spark-ground" }),
    React.createElement("path", { key: "line", d: path, className: "gl-spark-line", vectorEffect: "non-scaling-stroke" }),
  ];
  return React.createElement("svg", { viewBox: "0 0 100 24", preserveAspectRatio: "none", "aria-hidden": "true" }, drawn);
};
