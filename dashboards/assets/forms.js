// Forms that ask the API (dashboards/forms.py), and what pages ask of it themselves.
(function () {
  "use strict";
  // Of amounts in one currency, in whole parts of its smallest coin (four digits at most): fractions do not sum exactly.
  function sum(amounts) {
    return amounts.reduce(function (parts, one) { return parts + Math.round(one * 1e4); }, 0) / 1e4;
  }

  // GPU-hours on a draft's lines, as the total below them has: with what minimums add, without corrections.
  function hoursOf(draft) {
    return draft.lines.reduce(function (hours, line) {
      var counts = line.unit === "GPU-hours" && line.quantity != null && line.charge_class !== "Correction";
      return counts ? hours + Number(line.quantity) : hours;
    }, 0);
  }

  // A sum for each currency, to the last cent; at least so much where something has no price.
  function sumOf(drafts, asked) {
    var amounts = {};
    drafts.forEach(function (one) { (amounts[one.currency] = amounts[one.currency] || []).push(one.amount || 0); });
    var lacks = drafts.some(function (one) { return one.state === asked.incomplete; });
    var said = Object.keys(amounts).map(function (currency) {
      var total = sum(amounts[currency]);
      var digits = new Intl.NumberFormat("en", { style: "currency", currency: currency }).resolvedOptions().maximumFractionDigits;
      var amount = Math.abs(total).toLocaleString("en", { minimumFractionDigits: digits, maximumFractionDigits: digits });
      return (total < 0 ? "−" : "") + (asked.symbols[currency] || currency + " ") + amount;
    });
    return said.length ? (lacks ? "≥ " : "") + said.join(" + ") : "–";
  }

  var dash = (window.dash_clientside = window.dash_clientside || {});

  var SOON_MS = 400;  // so long a press needs no answer before the form says that it is at work
  var AGAIN_MS = 3000;  // so long what a form has just done is not done again, as by a double click

  var DONE = "gpuledger-done";  // what a form has done, for the page that is drawn then
  var done = JSON.parse(sessionStorage.getItem(DONE) || "null");
  sessionStorage.removeItem(DONE);
  var NOTICES = "gpuledger-notices";  // what forms that are gone by then have done: {path, of: [[place, text, links]]}
  var notices = JSON.parse(sessionStorage.getItem(NOTICES) || "null");
  sessionStorage.removeItem(NOTICES);

  function values(form) {
    var body = JSON.parse(form.dataset.body || "{}");
    form.querySelectorAll("[data-field]").forEach(function (field) {
      var of = field.dataset.of;
      var input = of ? document.getElementById(of) : field.querySelector("input, select, textarea");
      var text = input ? (of ? input.value : input.value.trim()) : "";
      if (!text) return;
      var kind = field.dataset.kind;
      var listed = text.split(",").map(function (one) { return one.trim(); }).filter(Boolean);
      body[field.dataset.field] = kind === "number" ? Number(text) : kind === "list" ? listed
        : kind === "boolean" ? text === "true" : text;
    });
    return body;
  }

  // The keys of a template in braces, filled in.
  function filled(template, values) {
    return template.replace(/\{(\w+)\}/g, function (_, key) {
      return encodeURIComponent(values[key] == null ? "" : values[key]);
    });
  }

  // What the path does not say already.
  function without(template, values) {
    var body = Object.assign({}, values);
    (template.match(/\{\w+\}/g) || []).forEach(function (key) { delete body[key.slice(1, -1)]; });
    return body;
  }

  // No answer came, so that nobody knows whether it was done.
  function lost() { throw Object.assign(new Error(), { isLost: true }); }

  // The API's answer: its status and its document.
  async function request(method, path, body) {
    var answer = await fetch("/api/v1" + path, {
      method: method,
      credentials: "same-origin",
      headers: { "Content-Type": "application/json", Accept: "application/json" },
      body: body && method !== "DELETE" ? JSON.stringify(body) : undefined,
    }).catch(lost);
    var document = await answer.json().catch(lost);  // a proxy's page, in place of a server that is gone
    if (!answer.ok) {
      // A field is named as the page has it, not by its place in the request.
      var said = answer.status === 422 ? [document.detail.replace(/^body\./, "")] : [document.detail, document.next_step];
      var why = new Error(said.filter(Boolean).join(". "));
      throw Object.assign(why, { status: answer.status });
    }
    return [answer.status, document];
  }

  async function ask(method, path, body) {
    return (await request(method, path, body))[1];
  }

  // A text whose braces name keys of an answer: lists with commas, times in the form's zone, names in its language.
  function spoken(form, template, answer) {
    var lang = window.document.documentElement.lang, names = JSON.parse(form.dataset.names || "{}");
    return template.split(/\{(\w+)\}/).map(function (key, at) {
      if (at % 2 === 0) return key;
      var value = answer[key];
      if (/_(at|until)$/.test(key)) {
        if (value == null) return "–";
        var how = { day: "numeric", month: "short", hour: "2-digit", minute: "2-digit", hourCycle: "h23" };
        how.timeZone = form.dataset.zone || undefined;
        return new Date(value).toLocaleString(lang === "en" ? "en-GB" : lang, how);
      }
      return [].concat(value == null ? [] : value).map(function (one) { return names[one] || one; }).join(", ");
    }).reduce(joined);
  }

  // As warehouse/phrases.py: no space between two Chinese characters where a value meets the text around it.
  var GAP = /([\u3000-\u9fff\uff01-\uff60]) (?=[\u3000-\u9fff\uff01-\uff60])/g;
  function joined(before, after) {
    var seam = before.slice(-2) + after.slice(0, 2);
    return before.slice(0, -2) + (before && after ? seam.replace(GAP, "$1") : seam) + after.slice(2);
  }

  document.addEventListener("submit", async function (event) {
    var form = event.target;
    if (!form.dataset || !form.dataset.api) return;
    event.preventDefault();
    if (form.dataset.sure && !window.confirm(form.dataset.sure)) return;
    var said = form.querySelector(".gl-said"), button = form.querySelector("button[type=submit]");
    var parts = form.dataset.api.split(" ");
    said.style.minHeight = said.offsetHeight + "px";  // what lies below does not move under a pointer that presses twice
    said.className = "gl-said";
    said.textContent = "";
    button.disabled = true;
    var working = setTimeout(function () { said.textContent = form.dataset.working; }, SOON_MS);
    try {
      var sent = values(form);
      var [status, answer] = await request(parts[0], filled(parts[1], sent), without(parts[1], sent));
      clearTimeout(working);
      form.dispatchEvent(new Event("gl-sent", { bubbles: true }));
      if (status === 200 && form.dataset.already) {
        said.textContent = spoken(form, form.dataset.already, answer);
        return;
      }
      if (form.dataset.says) {
        said.textContent = spoken(form, form.dataset.says, answer);
        form.querySelectorAll("input").forEach(function (input) { input.value = ""; });
        setTimeout(function () { button.disabled = false; }, AGAIN_MS);
        return;
      }
      if (!form.dataset.shows) {
        var told = Array.isArray(answer) ? answer[0] || {} : answer;
        if (form.dataset.then) location.assign(filled(form.dataset.then, told));
        else {
          if (form.dataset.notices) keepNotice(form, spoken(form, form.dataset.done, told));
          else if (form.dataset.done) sessionStorage.setItem(DONE, JSON.stringify([form.dataset.api, spoken(form, form.dataset.done, told)]));
          document.dispatchEvent(new Event("gl-reload"));
          location.reload();
        }
        return;
      }
      said.classList.add("gl-secret");
      said.textContent = form.dataset.once;
      said.appendChild(document.createElement("code")).textContent = answer[form.dataset.shows];
    } catch (error) {
      clearTimeout(working);
      said.classList.add("gl-refused");
      var refusals = document.getElementById("refusals").dataset[document.documentElement.lang];
      var kind = JSON.parse(refusals || "{}")[error.status];
      said.textContent = error.isLost ? form.dataset.lost : [kind, error.message || form.dataset.failed].filter(Boolean).join(" ");
    }
    said.style.minHeight = "";
    button.disabled = false;
  }, true);

  document.addEventListener("keydown", function (event) {
    if (event.key !== "Enter" || !(event.ctrlKey || event.metaKey) || event.target.id !== "explore-sql") return;
    event.preventDefault();
    document.getElementById("explore-run").click();
  });

  function keepNotice(form, text) {
    var before = notices && notices.path === location.pathname ? notices.of : [];
    var kept = before.concat([[form.dataset.notices, text, JSON.parse(form.dataset.links || "[]")]]);
    sessionStorage.setItem(NOTICES, JSON.stringify({ path: location.pathname, of: kept }));
  }

  // On each page drawn anew, until another one is.
  function sayNotices() {
    if (notices.path !== location.pathname) return (notices = null);
    notices.of.forEach(function (one) {
      var place = document.getElementById(one[0]);
      if (!place || place.dataset.says === String(notices.of.length)) return;
      place.dataset.says = notices.of.length;
      notices.of.filter(function (other) { return other[0] === one[0]; }).forEach(function (own) {
        var line = place.appendChild(document.createElement("p"));
        line.textContent = own[1];
        own[2].forEach(function (link) {
          var to = line.appendChild(document.createElement("a"));
          to.className = "gl-go";
          to.textContent = link[0];
          to.href = link[1];
        });
      });
    });
    return notices;
  }

  // Beside the form that did it.
  function sayDone() {
    var form = Array.from(document.querySelectorAll("form.gl-act")).find(function (one) { return one.dataset.api === done[0]; });
    if (!form) return;
    form.querySelector(".gl-said").textContent = done[1];
    done = null;
  }

  // A file to choose is named by the button around it; Dash's upload names it nowhere.
  new MutationObserver(function () {
    if (done) sayDone();
    if (notices) sayNotices();
    document.querySelectorAll(".dash-upload input[type=file]:not([aria-label]), #applied-file input:not([aria-label])")
      .forEach(function (input) { input.setAttribute("aria-label", input.parentElement.textContent); });
  }).observe(document.documentElement, { childList: true, subtree: true });

  dash.glforms = {
    // A month's drafts of those who have no invoice yet, as the API says them to whoever is here.
    drafts: async function (asked) {
      if (!asked) return Array(5).fill(dash.no_update);
      try {
        var path = "/drafts?limit=1000&month=" + encodeURIComponent(asked.month);
        var rows = (await ask("GET", path)).rows.filter(function (one) {
          return !asked.issued.includes(one.tenant) && (!asked.tenants.length || asked.tenants.includes(one.tenant));
        });
        var amount = function (text) { return text == null ? null : Number(text); };
        var shown = rows.map(function (one) {
          var totals = one.totals;
          // An amount lacks what has no price; if nothing has one, it is unknown.
          var unknown = totals.incomplete && one.lines.every(function (line) { return line.amount == null; });
          var corrections = one.lines.filter(function (line) { return line.charge_class === "Correction" && line.amount != null; });
          return {
            corrections: corrections.length ? sum(corrections.map(function (line) { return Number(line.amount); })) : null,
            tenant: one.tenant || asked.nobody, href: one.tenant && asked.href ? asked.href + encodeURIComponent(one.tenant) : "", lines: one.lines.length, hours: hoursOf(one),
            unpriced: amount(totals.unpriced_gpu_hours), tax: unknown ? null : amount(totals.tax),
            amount: unknown ? null : amount(totals.amount), currency: one.currency,
            state: totals.incomplete ? asked.incomplete : asked.complete,
          };
        });
        var total = sumOf(shown, asked);
        return [shown, "", !shown.length, total, total];
      } catch (error) {
        return [[], error.isLost ? asked.lost : error.message, true, "–", "–"];
      }
    },

    // A file that was chosen, as text; what was compared before is no longer that.
    opened: function (contents) {
      if (!contents) return [dash.no_update, dash.no_update];
      var bytes = Uint8Array.from(atob(contents.split(",")[1]), function (one) { return one.charCodeAt(0); });
      return [new TextDecoder().decode(bytes), null];
    },

    // The statement in the editor into the URL; the page then runs it. Dash may not know yet what was typed last.
    run: function (presses, search) {
      var query = new URLSearchParams(search || "");
      var text = document.getElementById("explore-sql").value;
      if (!presses || !text.trim()) return dash.no_update;
      if (query.get("sql") === text) query.set("run", String(Date.now()));
      else query.delete("run");
      query.set("sql", text);
      return "?" + query.toString();
    },
  };
})();
