// The frame's own: the filters' values into the URL, links without a page load, title and language of the document.
(function () {
  "use strict";
  var dash = (window.dash_clientside = window.dash_clientside || {});

  function go(href) {
    history.pushState({}, "", href);
    window.dispatchEvent(new CustomEvent("_dashprivate_pushstate"));
    window.scrollTo(0, 0);
  }

  // Plotly takes the browser a while to read. Dash waits for window.Plotly where that is a promise: this one, which the
  // first chart asks for, begins when the page's figures have been painted.
  var plotly = null;
  window.Plotly = {
    then: function (resolve, reject) {
      plotly = plotly || new Promise(function (loaded, failed) {
        requestAnimationFrame(function () {
          setTimeout(function () {
            var script = document.createElement("script");
            script.src = window._dashPlotlyJSURL;
            script.onload = function () { loaded(fittingCharts(window.Plotly)); };
            script.onerror = failed;
            document.head.appendChild(script);
          });
        });
      });
      return plotly.then(resolve, reject);
    },
  };

  // A chart that is narrow has as many times below it as fit side by side, and of "node · device" beside its lanes the
  // device: else the labels took more room than what they name.
  var NARROW_PX = 420, LABEL_PX = 52;

  function fittingCharts(library) {
    ["newPlot", "react"].forEach(function (name) {
      var draw = library[name];
      library[name] = function (place, figure) {
        if (figure && figure.layout && place.clientWidth && place.clientWidth < NARROW_PX) figure.layout = narrowed(figure.layout, figure.data || [], place.clientWidth);
        return draw.apply(this, arguments);
      };
    });
    return library;
  }

  function narrowed(layout, data, width) {
    var fitted = Object.assign({}, layout), margin = layout.margin || {}, left = margin.l || 0;
    Object.keys(layout).forEach(function (key) {
      var axis = layout[key], texts = /^yaxis/.test(key) && axis && axis.ticktext;
      if (!texts || !texts.some(function (text) { return / · /.test(text); })) return;
      fitted[key] = Object.assign({}, axis, { ticktext: texts.map(function (text) { return text.split(" · ").pop(); }) });
      left = Math.min(left, 78);
    });
    fitted.margin = Object.assign({}, margin, { l: left });
    var most = Math.max(2, Math.floor((width - left - (margin.r || 0)) / LABEL_PX));
    var isTime = data.some(function (one) { return one.x && /^\d{4}-/.test(one.x[0]); });
    Object.keys(layout).forEach(function (key) {
      if (isTime && /^xaxis/.test(key) && /%/.test(layout[key].tickformat) && !layout[key].tickvals) fitted[key] = Object.assign({}, layout[key], { nticks: most });
    });
    return fitted;
  }

  // Whether the server is there is asked all the while, so that figures do not go on standing there as if it were.
  var LOOK_MS = 1200, PATIENCE_MS = 1500;  // together, the time after which it is said
  var drawn = null;  // the address that was drawn last, when, and the zone of its times
  var isLost = false;

  function address() { return location.pathname + location.search; }

  function look() {
    if (document.visibilityState !== "visible") return setTimeout(look, LOOK_MS);
    var late = new AbortController();
    var timer = setTimeout(function () { late.abort(); }, PATIENCE_MS);
    fetch("/healthz", { cache: "no-store", signal: late.signal })
      .then(function (answer) { return answer.ok; }, function () { return false; })
      .then(function (isThere) {
        clearTimeout(timer);
        if (isThere && isLost) found();
        else if (!isThere && !isLost) lose();
        setTimeout(look, LOOK_MS);
      });
  }

  function lose() {
    var note = document.getElementById("lost");
    if (!note) return;
    var lang = document.documentElement.lang;
    var at = drawn ? new Date(drawn.at).toLocaleTimeString(lang, { hourCycle: "h23", timeZone: drawn.zone || undefined }) : "–";
    note.textContent = (note.dataset[lang] || note.dataset.en).replace("{time}", at);
    note.hidden = false;
    isLost = true;
  }

  // A day of the calendar, as it is read out.
  (window.dashMantineFunctions = window.dashMantineFunctions || {}).namedDay = function (day, options) {
    return { "aria-label": new Date(day + "T00:00").toLocaleDateString(options.language === "en" ? "en-GB" : options.language, { dateStyle: "long" }) };
  };

  // What was asked for meanwhile was not drawn; and what is there may be old.
  function found() {
    if (!drawn || drawn.address !== address()) return location.reload();
    document.getElementById("lost").hidden = true;
    isLost = false;
    if (!isHeld) dash.set_props("tick", { n_intervals: Date.now() });
  }

  setTimeout(look, LOOK_MS);

  // What is longer than the server takes of an address or a field, it refuses; Dash would say nothing and wait.
  var CALLBACK = "/_dash-update-component", NOTHING_NEW = 204, fetched = window.fetch;
  window.fetch = async function (asked) {
    var answer = await fetched.apply(this, arguments);
    if ((answer.status !== 400 && answer.status !== 413) || String(asked.url || asked).indexOf(CALLBACK) < 0) return answer;
    sayUnfit(true);
    return new Response(null, { status: NOTHING_NEW });
  };

  function sayUnfit(isUnfit) {
    var note = document.getElementById("unfit");
    if (!note) return;
    note.textContent = isUnfit ? note.dataset[document.documentElement.lang] || note.dataset.en : "";
    note.hidden = !isUnfit;
  }

  // Under somebody who types, a page is not drawn again, until they send it or go elsewhere.
  var isHeld = false;

  function hold(held) {
    isHeld = held;
    dash.set_props("tick", { disabled: held });
  }

  document.addEventListener("input", function (event) { if (event.target.closest("#page")) hold(true); }, true);
  // One that asks the API is sent when that has done it: where it refuses, they go on typing (assets/forms.js).
  document.addEventListener("submit", function (event) {
    if (event.target.closest("#page") && !event.target.dataset.api) hold(false);
  });
  document.addEventListener("gl-sent", function (event) { if (event.target.closest("#page")) hold(false); });

  // A callback takes no more, and Dash would not say so; a form's fields go to the API, which does.
  var CHARACTERS = 10000;
  document.addEventListener("focusin", function (event) {
    var isText = event.target.matches && event.target.matches("#page :is(input, textarea):not(form *, #applied-yaml)");
    if (isText && event.target.maxLength < 0) event.target.maxLength = CHARACTERS;
  });

  // What they opened of a list that loads what opens (pages/alerts/active.py) is opened again on a page drawn anew.
  var opened = { address: "", ids: [] };
  var OPENING_MS = 3000;  // so long what opens may take to load

  document.addEventListener("toggle", function (event) {
    var summary = event.target.querySelector && event.target.querySelector(":scope > summary[id]");
    if (!summary) return;
    if (opened.address !== address()) opened = { address: address(), ids: [] };
    opened.ids = opened.ids.filter(function (id) { return id !== summary.id; });
    if (event.target.open) opened.ids.push(summary.id);
    nameAlert(summary, event.target.open);
  }, true);

  // The alert that a reader opened last stands in the address: who is sent it sees it, and so do they after they acknowledge it.
  function nameAlert(summary, isOpen) {
    var named = /^\{"alert":"([^"]+)","type":"alert-opens"\}$/.exec(summary.id), query = new URLSearchParams(location.search);
    if (!named || (query.get("alert") === named[1]) === isOpen) return;
    if (isOpen) query.set("alert", named[1]);
    else if (!query.has("alert")) return;
    else if (query.get("alert") === named[1]) query.delete("alert");
    var before = address();
    history.replaceState(history.state, "", location.pathname + (query.size ? "?" + query : "") + location.hash);
    if (drawn && drawn.address === before) drawn.address = address();
    opened.address = address();
  }

  // What opens at the end of a list that scrolls in itself is scrolled to, once it is there.
  document.addEventListener("click", function (event) {
    var summary = event.isTrusted && event.target.closest && event.target.closest(".gl-tall summary[id]");
    if (!summary || summary.parentElement.open) return;
    var list = summary.closest(".gl-tall"), grown = new ResizeObserver(function () {
      var place = list.getBoundingClientRect(), one = summary.parentElement.getBoundingClientRect();
      if (one.bottom > place.bottom) list.scrollTop += Math.min(one.bottom - place.bottom, one.top - place.top);
    });
    grown.observe(summary.parentElement);
    setTimeout(function () { grown.disconnect(); }, OPENING_MS);
  });

  function openAgain() {
    if (opened.address !== address()) return;
    opened.ids.forEach(function (id) {
      var summary = document.getElementById(id);
      if (summary && !summary.parentElement.open) summary.click();
    });
  }

  // A form with this class puts its fields into the address, which draws the page again; the reader stays where they are.
  document.addEventListener("submit", function (event) {
    var form = event.target;
    if (!form.classList || !form.classList.contains("gl-query")) return;
    event.preventDefault();
    history.pushState({}, "", form.getAttribute("action") + "?" + new URLSearchParams(new FormData(form)));
    window.dispatchEvent(new CustomEvent("_dashprivate_pushstate"));
  });

  // Links with this class, wherever they are drawn (tables, heat maps), change the page as dcc.Link does.
  // A language that the reader chooses is theirs on the next visit; one of a link that they were sent is not.
  document.addEventListener("click", function (event) {
    var chosen = event.target.closest && event.target.closest("a.gl-language");
    if (chosen) localStorage.setItem("gl-lang", new URL(chosen.href).searchParams.get("lang"));
  }, true);

  document.addEventListener("click", function (event) {
    var link = event.target.closest && event.target.closest("a.gl-go");
    if (!link || event.defaultPrevented || event.button || event.metaKey || event.ctrlKey || event.shiftKey) return;
    event.preventDefault();
    go(link.getAttribute("href"));
  });

  // The tour (dashboards/tour.py): the stop that this tab is at, and its page, on which alone it stands. The document's root
  // has it, so that it stays when the page is drawn again; the style sheet shows it.
  var isMoving = false;  // the next stop is not drawn yet

  function tour(stop, path) {
    if (stop === null) sessionStorage.removeItem("gl-tour");
    else sessionStorage.setItem("gl-tour", JSON.stringify([stop, path]));
    showStop();
  }

  function showStop() {
    var kept = JSON.parse(sessionStorage.getItem("gl-tour"));
    if (kept && kept[1] === location.pathname) document.documentElement.dataset.tour = kept[0];
    else delete document.documentElement.dataset.tour;
  }

  // The keyboard's place is the stop's question, as soon as its page is drawn.
  function arrive() {
    isMoving = false;
    setTimeout(function () {
      var stop = document.documentElement.dataset.tour;
      var question = document.querySelector(".gl-stop[data-stop='" + stop + "'] .gl-tour-question");
      if (question) question.focus();
    }, 50);
  }

  function leaveTour() {
    tour(null);
    document.getElementById("page").focus();
  }

  if (location.hash === "#tour") {
    tour("0", location.pathname);
    isMoving = true;  // its question gets the keyboard's place as at every other stop
  } else showStop();

  document.addEventListener("click", function (event) {
    var to = event.target.closest && event.target.closest(".gl-tour-go");
    if (to && !(event.button || event.metaKey || event.ctrlKey || event.shiftKey)) {
      tour(to.dataset.stop, to.pathname);
      isMoving = !drawn || drawn.address.split("?")[0] !== to.pathname;
      if (!isMoving) arrive();
    } else if (event.target.closest && event.target.closest(".gl-tour-leave")) leaveTour();
  });

  document.addEventListener("keydown", function (event) {
    if (event.key === "Escape" && event.target.closest && event.target.closest(".gl-tour")) leaveTour();
  });

  // In a table of grids.py the cell has the focus, not the link in it.
  document.addEventListener("keydown", function (event) {
    var cell = event.key === "Enter" && event.target.closest && event.target.closest(".ag-cell");
    var link = cell && cell.querySelector("a.gl-go");
    if (link) link.click();
  });

  // Spare columns of a table (grids.grid) are there as far as they fit, those of the highest rank first; all of them
  // where the reader has to scroll anyway.
  function fit(grid, api) {
    var view = grid.querySelector(".ag-header-viewport");
    var left = view ? view.clientWidth : 0;
    if (!left || isPrinting) return;
    var rank = function (column) { return (column.getColDef().context || {}).spare || 0; };
    var columns = api.getColumns() || [], shown = [], hidden = [];
    columns.forEach(function (column) { if (!rank(column)) left -= column.getMinWidth(); });
    var scrolls = left < 0;
    columns.filter(rank).sort(function (a, b) { return rank(b) - rank(a); }).forEach(function (column) {
      var fits = scrolls || column.getMinWidth() <= left;
      if (fits) left -= column.getMinWidth();
      (fits ? shown : hidden).push(column);
    });
    api.setColumnsVisible(shown, true);
    api.setColumnsVisible(hidden, false);
  }

  // On a phone, and on a tablet where not even the columns that matter fit, each row is a card: its first cell, and below
  // it the others with their names (gl-cards in the style sheet). Two columns that fit are a table anywhere.
  var PHONE = window.matchMedia("(max-width: 620px)"), TABLET = window.matchMedia("(max-width: 900px)");
  var THIRD_PX = 104;  // of a card, across
  var sheets = {};  // by table, the names of its cells

  function lay(grid, api) {
    if (isPrinting || api.isDestroyed()) return;  // its page may be left before it is drawn
    var areFitting = leastWidth(api) <= grid.clientWidth, isPair = areFitting && (api.getColumns() || []).length < 3;
    var isCards = PHONE.matches ? !isPair : TABLET.matches && !areFitting;
    var layout = isCards ? "print" : grid.style.height ? "normal" : "autoHeight";
    grid.classList.toggle("gl-cards", isCards);
    if (api.getGridOption("domLayout") !== layout) api.setGridOption("domLayout", layout);
    if (isCards) nameCells(grid, api);
    fold(grid, api);
    var columns = api.getColumns() || [], isOnCards = function (column) { return (column.getColDef().context || {}).cards !== false; };
    if (isCards) {
      api.setColumnsVisible(columns.filter(isOnCards), true);
      api.setColumnsVisible(columns.filter(function (column) { return !isOnCards(column); }), false);
      return;
    }
    api.setColumnsVisible(columns.filter(function (column) { return !isOnCards(column) && !column.getColDef().context.spare; }), true);
    if (grid.classList.contains("gl-fits")) fit(grid, api);
  }

  // Cards scroll with the page. Of a long table the first ones are there, so that what follows is near; a button below
  // them shows all (gl-folded in the style sheet).
  var FIRST_CARDS = 5;
  var unfolded = {};  // by table, the address at which its reader asked for all

  function fold(grid, api) {
    if (api.isDestroyed()) return;
    var count = api.getDisplayedRowCount(), address = location.pathname + location.search;
    var isFolded = grid.classList.contains("gl-cards") && count > FIRST_CARDS && unfolded[grid.id] !== address;
    var button = grid.querySelector(":scope > .gl-unfold");
    grid.classList.toggle("gl-folded", isFolded);
    sayCount(grid, api);
    if (!isFolded) return button && button.remove();
    if (!button) {
      button = grid.appendChild(document.createElement("button"));
      button.type = "button";
      button.className = "gl-press gl-small gl-unfold";
      button.addEventListener("click", function () {
        unfolded[grid.id] = location.pathname + location.search;
        fold(grid, api);
      });
    }
    var text = (api.getGridOption("localeText") || {}).showAll || "{n}";
    button.textContent = text.replace("{n}", count.toLocaleString(document.documentElement.lang));
  }

  // How many rows there are, at the bottom of a table that scrolls in itself.
  function sayCount(grid, api) {
    var body = grid.querySelector(".ag-body"), text = (api.getGridOption("localeText") || {}).rows || "{n}";
    if (body) body.dataset.rows = text.replace("{n}", api.getDisplayedRowCount().toLocaleString(document.documentElement.lang));
  }

  // A table that scrolls in itself fades out at the bottom while it goes on there (gl-goes-on in the style sheet).
  document.addEventListener("scroll", function (event) {
    var rows = event.target, grid = rows.closest && rows.matches(".ag-body-viewport") && rows.closest(".gl-grid");
    if (grid) grid.classList.toggle("gl-goes-on", rows.scrollTop + rows.clientHeight < rows.scrollHeight - 2);
  }, true);

  // A long list on a small screen, as cards (gl-tall; on a larger one it scrolls in itself).
  var FIRST_ITEMS = 20;
  var unfoldedLists = {};  // the address at which all of its lists were asked for

  function foldLists() {
    document.querySelectorAll("main .gl-unfold-list").forEach(function (button) {
      if (!button.previousElementSibling || !button.previousElementSibling.matches("ul.gl-tall")) button.remove();
    });
    document.querySelectorAll("main ul.gl-tall").forEach(function (list) {
      var next = list.nextElementSibling, button = next && next.classList.contains("gl-unfold-list") ? next : null;
      var isFolded = TABLET.matches && list.children.length > FIRST_ITEMS && !unfoldedLists[address()];
      if (list.classList.contains("gl-folded-list") !== isFolded) list.classList.toggle("gl-folded-list", isFolded);
      if (!isFolded) return button && button.remove();
      var text = (list.dataset.all || "{n}").replace("{n}", list.children.length.toLocaleString(document.documentElement.lang));
      if (button) return button.textContent === text || (button.textContent = text);
      button = document.createElement("button");
      button.type = "button";
      button.className = "gl-press gl-small gl-unfold-list";
      button.textContent = text;
      button.addEventListener("click", function () {
        unfoldedLists[address()] = true;
        foldLists();
      });
      list.after(button);
    });
  }

  TABLET.addEventListener("change", foldLists);

  function leastWidth(api) {
    return (api.getColumns() || []).reduce(function (sum, column) {
      return (column.getColDef().context || {}).spare ? sum : sum + column.getMinWidth();
    }, 0);
  }

  function nameCells(grid, api) {
    var text = (api.getColumns() || []).map(function (column, at) {
      var cell = "#" + CSS.escape(grid.id) + ".gl-cards .ag-cell[col-id=" + JSON.stringify(column.getColId()) + "]";
      var def = column.getColDef(), parts = def.wrapText ? 3 : Math.min(3, Math.ceil((column.getMinWidth() - 24) / THIRD_PX));
      var name = (def.context || {}).card || def.headerName;
      // What has no name belongs to the cell before it, which no other then comes between.
      if (!at || !name) return cell + " { grid-column: 1 / -1; }";
      return cell + " { grid-column: span " + parts + "; } " + cell + "::before { content: " + JSON.stringify(name) + "; }";
    }).join("\n");
    var sheet = sheets[grid.id] = sheets[grid.id] || new CSSStyleSheet();
    if (sheet.text === text) return;
    sheet.text = text;
    sheet.replaceSync(text);
    document.adoptedStyleSheets = Object.values(sheets);
  }

  // A page that is drawn again has other tables: the reader's order, filters, row and cell go on in them.
  var places = {};  // by table

  function keepPlace(grid, api) {
    var view = grid.querySelector(".ag-body-viewport"), cell = grid.contains(document.activeElement) && api.getFocusedCell();
    var row = cell && api.getDisplayedRowAtIndex(cell.rowIndex);
    places[grid.id] = {
      address: location.pathname + location.search,
      order: api.getColumnState().filter(function (column) { return column.sort; }),
      filter: api.getFilterModel(),
      top: view ? view.scrollTop : 0,
      pageTop: window.scrollY,
      cell: row && { row: row.id, column: cell.column.getColId() }
    };
  }

  function goBack(grid, api) {
    var place = places[grid.id];
    delete places[grid.id];
    if (!place || place.address !== location.pathname + location.search) return;
    var order = place.order.map(function (one) { return { colId: one.colId, sort: one.sort, sortIndex: one.sortIndex }; });
    api.applyColumnState({ state: order, defaultState: { sort: null } });
    api.setFilterModel(place.filter);
    requestAnimationFrame(function () {
      var view = grid.querySelector(".ag-body-viewport"), row = place.cell && api.getRowNode(place.cell.row);
      if (view) view.scrollTop = place.top;
      if (row && row.rowIndex !== null) api.setFocusedCell(row.rowIndex, place.cell.column);
      if (window.scrollY < place.pageTop) window.scrollTo(0, place.pageTop);
    });
  }

  var fitting = false, isPrinting = false;
  function fitNew() {
    fitting = false;
    foldLists();
    document.querySelectorAll(".gl-grid:not([data-fits])").forEach(function (grid) {
      if (!grid.id || !window.dash_ag_grid) return;
      grid.dataset.fits = "";
      window.dash_ag_grid.getApiAsync(grid.id).then(function (api) {
        var again = function () { lay(grid, api); };
        again();
        if (api.getDisplayedRowCount()) goBack(grid, api);
        else api.addEventListener("firstDataRendered", function () { goBack(grid, api); });
        api.addEventListener("gridPreDestroyed", function () { keepPlace(grid, api); });
        api.addEventListener("modelUpdated", function () { fold(grid, api); });
        ["gridSizeChanged", "firstDataRendered", "newColumnsLoaded"].forEach(function (event) { api.addEventListener(event, again); });
      });
    });
  }

  new MutationObserver(function () {
    if (!fitting) requestAnimationFrame(fitNew);
    fitting = true;
  }).observe(document.documentElement, { childList: true, subtree: true });

  // The paper shows the page as wide as the screen does, as tables keep the widths of their columns. With Ctrl-P it has
  // all of their rows, too, which takes a moment to draw; by the browser's menu, those on the screen.
  var PAPER_PX = 1040, DRAWN_MS = 500;  // of A4 across, within its margins
  var flexesOf = {};  // by table that is printed, how its columns share the screen
  var widthsOf = {};

  // For paper the grid gives each column its width as if it had no others beside it, and texts that wrap are then cut off;
  // columns keep what they have.
  function keepWidths(grid, api) {
    if (flexesOf[grid.id] || grid.classList.contains("gl-cards")) return;
    var columns = api.getAllDisplayedColumns();
    widthsOf[grid.id] = columns.map(function (one) { return { colId: one.getColId(), width: one.getActualWidth(), flex: null }; });
    flexesOf[grid.id] = columns.map(function (one) { return { colId: one.getColId(), flex: one.getFlex() }; });
    api.applyColumnState({ state: widthsOf[grid.id] });
  }

  function eachTable(act) {
    document.querySelectorAll(".gl-grid[id]").forEach(function (grid) {
      var api = window.dash_ag_grid && window.dash_ag_grid.getApi(grid.id);
      if (api) act(grid, api);
    });
  }

  function layTables(isWhole) {
    isPrinting = isWhole;
    document.documentElement.classList.toggle("gl-whole", isWhole);
    eachTable(function (grid, api) {
      if (isWhole) keepWidths(grid, api);
      api.setGridOption("domLayout", isWhole ? "print" : grid.style.height ? "normal" : "autoHeight");
      if (flexesOf[grid.id] && isWhole) api.applyColumnState({ state: widthsOf[grid.id] });
      if (isWhole) return;
      if (flexesOf[grid.id]) api.applyColumnState({ state: flexesOf[grid.id] });
      delete flexesOf[grid.id];
      lay(grid, api);
    });
  }
  window.addEventListener("beforeprint", function () {
    var page = document.getElementById("page");
    var zoom = page ? Math.min(1, PAPER_PX / page.clientWidth) : 1;
    document.documentElement.style.setProperty("--gl-print", zoom.toFixed(3));
    isPrinting = true;
    eachTable(keepWidths);
  });
  window.addEventListener("afterprint", function () { layTables(false); });
  document.addEventListener("keydown", function (event) {
    if (event.key !== "p" || !(event.ctrlKey || event.metaKey) || event.shiftKey || event.altKey) return;
    event.preventDefault();
    layTables(true);
    setTimeout(function () { window.print(); }, DRAWN_MS);
  });

  // A button that saves a table: one that it carries, or that of a grid, every row in the order it is shown in.
  // Numbers are in full; a text that spreadsheets would run as a formula stands behind an apostrophe.
  document.addEventListener("click", function (event) {
    var button = event.target.closest && event.target.closest(".gl-csv");
    if (!button) return;
    if (button.dataset.csvOf) return saveGrid(button.dataset.csvOf, button.dataset.file);
    var link = document.createElement("a");
    link.href = URL.createObjectURL(new Blob(["\ufeff" + button.dataset.csv], { type: "text/csv;charset=utf-8" }));
    link.download = button.dataset.file;
    link.click();
    setTimeout(function () { URL.revokeObjectURL(link.href); }, 1000);
  });

  // As warehouse/csv_cells.py.
  function escapeFormula(cell) {
    var formula = typeof cell === "string" && /^'*[=+\-@\t\r\n\uff1d\uff0b\uff0d\uff20]/.test(cell);
    return formula && !/^[-+]?[0-9][0-9,]*(\.[0-9]+)?([eE][-+]?[0-9]+)?%?$/.test(cell) ? "'" + cell : cell;
  }

  // What keeps lines together on a page is in nobody's search.
  function plain(cell) { return typeof cell === "string" ? cell.replace(/[\u200b\u2060]/g, "").replace(/\u00a0/g, " ") : cell; }

  function saveGrid(id, file) {
    if (!document.getElementById(id)) return;  // not filled in yet
    var api = window.dash_ag_grid.getApi(id);
    var context = function (column) { return column.getColDef().context || {}; };
    api.exportDataAsCsv({
      fileName: file,
      skipPinnedBottom: true,
      columnKeys: api.getAllGridColumns().filter(function (column) { return !context(column).drawn && column.getColDef().headerName; }),
      processHeaderCallback: function (of) {
        var unit = context(of.column).unit;
        var named = plain(of.column.getColDef().headerName), isSaid = !unit || named.indexOf(unit) >= 0;
        return escapeFormula(named + (isSaid ? "" : " (" + unit + ")"));
      },
      processCellCallback: function (of) { return of.value == null ? "" : escapeFormula(plain(of.value)); },
    });
  }

  dash.gl = {
    // The search of the URL with what the filters say; nothing where it says so already.
    filter: function (values, ids, search) {
      var query = new URLSearchParams(search || "");
      ids.forEach(function (id, at) {
        query.delete(id.name);
        (values[at] || []).forEach(function (value) { query.append(id.name, value); });
      });
      var told = Array.from(new URLSearchParams(search || "").entries());
      var asked = Array.from(query.entries());
      var key = function (pairs) { return JSON.stringify(pairs.map(String).sort()); };
      return key(told) === key(asked) ? dash.no_update : "?" + query.toString();
    },

    // Both ends of a range of days, the last one included, as a period.
    days: function (range, search) {
      if (!range || !range[0] || !range[1]) return dash.no_update;
      var query = new URLSearchParams(search || "");
      var end = new Date(range[1] + "T00:00:00Z");
      end.setUTCDate(end.getUTCDate() + 1);
      var until = end.toISOString().slice(0, 10);
      query.set("period", range[0] === range[1] ? range[0] : range[0] + ".." + until);
      return "?" + query.toString();
    },

    // What a page looks for by name.
    find: function (value, search) {
      var query = new URLSearchParams(search || "");
      if ((query.get("find") || "") === (value || "")) return dash.no_update;
      if (value) query.set("find", value);
      else query.delete("find");
      return "?" + query.toString();
    },

    // Days or hours, where somebody chooses others than those that are drawn.
    grain: function (value, drawn, search) {
      if (value === drawn) return dash.no_update;
      var query = new URLSearchParams(search || "");
      query.set("grain", value);
      return "?" + query.toString();
    },

    // A click on a point whose customdata is a link, or begins with one.
    follow: function (click) {
      ((click && click.points) || []).some(function (point) {
        var href = [].concat(point.customdata)[0];
        var leads = typeof href === "string" && href.charAt(0) === "/";
        if (leads) go(href);
        return leads;
      });
    },

    // What the document is called and which language it is in.
    // A period that nobody chose stands in the address, too: who is sent it sees the same.
    meta: function (meta) {
      if (!meta) return dash.no_update;
      var query = new URLSearchParams(location.search);
      if (meta.period && query.get("period") !== meta.period) {
        query.set("period", meta.period);
        history.replaceState(history.state, "", location.pathname + "?" + query + location.hash);
      }
      drawn = { address: address(), at: Date.now(), zone: meta.zone };
      showStop();
      sayUnfit(false);
      hold(false);
      openAgain();
      document.title = meta.title;
      document.documentElement.lang = meta.lang;
      if (isMoving) arrive();
      else document.dispatchEvent(new Event("gl-drawn"));
      return meta.title;
    },
  };
})();
