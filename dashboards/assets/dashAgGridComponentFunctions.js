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
  var path = "", ground = "", from = null, last = 0;
  function close() {
    if (from != null) ground += "L" + last + " 23L" + from + " 23Z";
    from = null;
  }
  values.forEach(function (one, at) {
    if (one == null) return close();
    var x = (values.length > 1 ? (100 * at) / (values.length - 1) : 50).toFixed(1);
    var point = (from != null ? "L" : "M") + x + " " + (22 - (20 * one) / most).toFixed(1);
    if (from == null) from = x;
    path += point; ground += point; last = x;
  });
  close();
  var drawn = [
    React.createElement("path", { key: "ground", d: ground, className: "gl-spark-ground" }),
    React.createElement("path", { key: "line", d: path, className: "gl-spark-line", vectorEffect: "non-scaling-stroke" }),
  ];
  return React.createElement("svg", { viewBox: "0 0 100 24", preserveAspectRatio: "none", "aria-hidden": "true" }, drawn);
};
