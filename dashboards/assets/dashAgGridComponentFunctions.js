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
  var label = Math.round((1000 * row.used) / whole) / 10 + " % used";
  return React.createElement("div", { className: "gl-stack", role: "img", title: label, "aria-label": label }, parts);
};
