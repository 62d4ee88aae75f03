// Numbers of the tables as dashboards/format.py writes them: so that one amount is the same in a headline and in a row.
var dagfuncs = (window.dashAgGridFunctions = window.dashAgGridFunctions || {});

// As format.fixed: with so many digits after the point, halves to the even one, as documents round.
dagfuncs.fixed = function (value, digits) {
  var nine = Math.abs(value).toFixed(9);
  if (/e/.test(nine)) return String(value); // 1e21, and beyond
  // As it is written, which JavaScript does with an exponent below a millionth.
  var parts = (nine < "0.000001" ? nine.replace(/0+$/, "") : String(Number(nine))).split(".");
  var after = (parts[1] || "").padEnd(digits, "0");
  var kept = BigInt(parts[0] + after.slice(0, digits)), rest = after.slice(digits);
  if (rest > "5" || (rest === "5" && kept % 2n)) kept += 1n;
  var text = kept.toString().padStart(digits + 1, "0"), point = text.length - digits;
  var whole = text.slice(0, point).replace(/\B(?=(\d{3})+$)/g, ",");
  return (value < 0 && kept ? "−" : "") + whole + (digits ? "." + text.slice(point) : "");
};

// Without zeros at the end.
dagfuncs.short = function (value, digits) {
  var text = dagfuncs.fixed(value, digits);
  return text.indexOf(".") < 0 ? text : text.replace(/\.?0+$/, "");
};
